// A device plugin under test, used as the core uses it: through its ABI table, with tensors, plans and one queue.
#pragma once

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kvplane/device.h"
#include "support/fake_host.h"

namespace kvplane::test {

// A view of memory that outlives it.
class Tensor {
public:
    Tensor(void* data, std::vector<int64_t> shape, DLDataType type, std::string format = "", int64_t n_columns = 0)
        : state_(std::make_unique<State>()) {
        state_->shape = std::move(shape);
        state_->strides.resize(state_->shape.size());
        int64_t size = 1;
        for (size_t i = state_->shape.size(); i-- > 0; size *= state_->shape[i]) state_->strides[i] = size;
        state_->format = std::move(format);
        state_->view = {data, {kDLCPU, 0},          static_cast<int32_t>(state_->shape.size()),
                        type, state_->shape.data(), state_->strides.data(),
                        0};
        state_->tensor = {};
        state_->tensor.head = KVP_HEAD(kvp_tensor);
        state_->tensor.view = &state_->view;
        state_->tensor.format = {state_->format.data(), state_->format.size()};
        state_->tensor.n_columns = n_columns;
        state_->tensor.tier = KVP_TIER_HOST;
    }

    static Tensor f32(const std::vector<float>& data, std::vector<int64_t> shape) {
        return {const_cast<float*>(data.data()), std::move(shape), {kDLFloat, 32, 1}};
    }
    static Tensor i32(const std::vector<int32_t>& data) {
        return {const_cast<int32_t*>(data.data()), {static_cast<int64_t>(data.size())}, {kDLInt, 32, 1}};
    }
    static Tensor blocks(const std::vector<uint8_t>& data, int64_t rows, std::string format, int64_t n_columns) {
        return {const_cast<uint8_t*>(data.data()),
                {rows, static_cast<int64_t>(data.size()) / rows},
                {kDLUInt, 8, 1},
                std::move(format),
                n_columns};
    }

    const kvp_tensor* get() const { return &state_->tensor; }
    DLTensor& view() { return state_->view; }

private:
    struct State {
        std::vector<int64_t> shape;
        std::vector<int64_t> strides;
        std::string format;
        DLTensor view;
        kvp_tensor tensor;
    };
    std::unique_ptr<State> state_;
};

class DeviceHarness {
public:
    // `level` is the value of KVPLANE_CPU, empty: the best. Throws std::runtime_error when the device does not open.
    DeviceHarness(const std::string& path, int n_threads, const std::string& level = "")
        : plugin_(path, {{"threads", std::to_string(n_threads)}}), table_(plugin_.kind<kvp_device>(KVP_KIND_DEVICE)) {
        setenv("KVPLANE_CPU", level.c_str(), 1);
        if (table_->open(0, &device_) != KVP_OK) throw std::runtime_error(plugin_.host.error);
        if (table_->queue_create(device_, 0, &queue_) != KVP_OK) throw std::runtime_error(plugin_.host.error);
    }
    ~DeviceHarness() {
        table_->queue_destroy(queue_);
        table_->close(device_);
    }
    DeviceHarness(const DeviceHarness&) = delete;
    DeviceHarness& operator=(const DeviceHarness&) = delete;

    const kvp_device& table() const { return *table_; }
    kvp_device_object* device() const { return device_; }
    kvp_queue* queue() const { return queue_; }
    const std::string& error() const { return plugin_.host.error; }

    struct Operand {
        Operand(const Tensor& tensor) : pointer(tensor.get()) {}  // implicit, so that calls read as lists of tensors
        const kvp_tensor* pointer;
    };
    using Tensors = std::initializer_list<Operand>;
    using Plan = std::unique_ptr<kvp_plan, void (*)(kvp_plan*)>;

    kvp_status try_prepare(const std::string& op, const void* attributes,
                           const std::vector<const kvp_tensor*>& constants, kvp_plan** plan) const {
        const kvp_op_request request = request_of(op, attributes, constants);
        return table_->op_prepare(device_, &request, plan);
    }
    Plan prepare(const std::string& op, const void* attributes = nullptr,
                 const std::vector<const kvp_tensor*>& constants = {}) const {
        kvp_plan* plan = nullptr;
        if (try_prepare(op, attributes, constants, &plan) != KVP_OK) throw std::runtime_error(op + ": " + error());
        return {plan, table_->op_release};
    }
    kvp_status support(const std::string& op, const void* attributes, const std::vector<const kvp_tensor*>& constants,
                       kvp_op_answer* answer) const {
        const kvp_op_request request = request_of(op, attributes, constants);
        return table_->op_support(device_, &request, answer);
    }
    kvp_status try_run(const Plan& plan, Tensors operands, const void* arguments = nullptr) const {
        std::vector<const kvp_tensor*> pointers;
        for (const Operand& operand : operands) pointers.push_back(operand.pointer);
        return table_->op_enqueue(queue_, plan.get(), pointers.data(), static_cast<uint32_t>(pointers.size()),
                                  arguments);
    }
    void run(const Plan& plan, Tensors operands, const void* arguments = nullptr) const {
        if (try_run(plan, operands, arguments) != KVP_OK) throw std::runtime_error(error());
    }
    // An op without constants and attributes.
    void run(const std::string& op, Tensors operands, const void* arguments) const {
        run(prepare(op), operands, arguments);
    }

private:
    static kvp_op_request request_of(const std::string& op, const void* attributes,
                                     const std::vector<const kvp_tensor*>& constants) {
        kvp_op_request request = {};
        request.head = KVP_HEAD(kvp_op_request);
        request.op = {op.data(), op.size()};
        request.attributes = attributes;
        request.constants = constants.data();
        request.n_constants = static_cast<uint32_t>(constants.size());
        return request;
    }

    LoadedPlugin plugin_;
    const kvp_device* table_;
    kvp_device_object* device_ = nullptr;
    kvp_queue* queue_ = nullptr;
};

template <typename T>
T structure() {
    T made = {};
    made.head = KVP_HEAD(T);
    return made;
}

template <typename T>
kvp_address address_of(std::vector<T>& values) {
    return reinterpret_cast<kvp_address>(values.data());
}

}  // namespace kvplane::test
