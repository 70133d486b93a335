// The device that the pipeline chose, as the core uses it: the C table with ownership and errors put right.
// Everything the core runs goes through one queue; a device without ASYNCHRONOUS has finished when enqueue returns.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "device/tensor.h"
#include "kvplane/device.h"

namespace kvplane {

class Device;

// What a plugin's status means, with the text that the plugin set: "out of memory, because …".
using Explain = std::function<std::string(kvp_status)>;

// Device memory that goes back when it goes out of scope.
class Buffer {
public:
    Buffer() = default;
    Buffer(Device& device, uint64_t bytes, std::string_view what);
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();

    kvp_address address() const { return address_; }
    uint64_t bytes() const { return bytes_; }

private:
    Device* device_ = nullptr;
    kvp_address address_ = 0;
    uint64_t bytes_ = 0;
};

// A prepared op.
class Plan {
public:
    Plan() = default;
    Plan(const kvp_device* table, kvp_plan* plan) : table_(table), plan_(plan) {}
    Plan(Plan&& other) noexcept;
    Plan& operator=(Plan&& other) noexcept;
    ~Plan();

    const kvp_plan* get() const { return plan_; }

private:
    const kvp_device* table_ = nullptr;
    kvp_plan* plan_ = nullptr;
};

class Device {
public:
    Device(const kvp_device* table, uint32_t index, Explain explain);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    std::string name() const { return text(info_.name); }
    std::string arch() const { return text(info_.arch); }  // the instruction set or chip that its code is for
    uint32_t threads() const { return info_.n_threads; }
    uint64_t total_bytes() const { return info_.total_bytes; }
    bool reads_host_memory() const { return (info_.flags & KVP_DEVICE_HOST_MEMORY) != 0; }

    const kvp_device* table() const { return table_; }
    kvp_device_object* object() const { return object_; }
    kvp_queue* queue() const { return queue_; }

    // Whether the device has this op for these constants.
    bool supports(std::string_view op, const void* attributes, std::span<const Tensor* const> constants,
                  int64_t max_rows);
    Plan prepare(std::string_view op, const void* attributes = nullptr, std::span<const Tensor* const> constants = {},
                 int64_t max_rows = 0);
    void enqueue(const Plan& plan, std::span<const Tensor* const> operands, const void* arguments = nullptr);

    // Blocking copies, for set-up and results. Behind all work that is on the queue.
    void upload(kvp_address to, const void* from, uint64_t bytes);
    void download(void* to, kvp_address from, uint64_t bytes);
    // In the queue's order.
    void copy(std::span<const kvp_copy_region> regions);
    // Returns when the queue is empty.
    void synchronise();

    // Throws Error(plugin) with the plugin's own words unless `status` is KVP_OK.
    void check(kvp_status status, std::string_view doing);

private:
    friend class Buffer;
    kvp_status op_support(const kvp_op_request& request, kvp_op_answer& answer);
    static std::string text(kvp_str value) { return std::string(value.data, value.n_bytes); }

    const kvp_device* table_;
    Explain explain_;
    kvp_device_object* object_ = nullptr;
    kvp_queue* queue_ = nullptr;
    kvp_event* event_ = nullptr;
    uint64_t event_value_ = 0;
    kvp_device_info info_{};
};

}  // namespace kvplane
