#include "engine/op_profile.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "engine/op_traffic.h"

namespace kvplane {

namespace {

OpProfile* active = nullptr;

constexpr uint64_t wait_forever_ns = 600'000'000'000;

std::string text(kvp_str value) {
    return std::string(value.data, value.n_bytes);
}

// "gguf.q4_1/1" -> "q4_1"; the element type where there are no blocks.
std::string format_name(const kvp_tensor& tensor) {
    if (tensor.format.n_bytes == 0) {
        const DLDataType type = tensor.view->dtype;
        const char* const kind = type.code == kDLFloat ? "f" : type.code == kDLBfloat ? "bf" : "i";
        return kind + std::to_string(type.bits);
    }
    std::string name = text(tensor.format);
    if (const size_t dot = name.find('.'); dot != std::string::npos) name = name.substr(dot + 1);
    return name.substr(0, name.find('/'));
}

int64_t columns(const kvp_tensor& tensor) {
    return tensor.n_columns != 0 ? tensor.n_columns : tensor.view->shape[tensor.view->ndim - 1];
}

bool is_matrix(const kvp_tensor& tensor) {
    return tensor.view->ndim == 2;
}

// "q4_1 576>576+192+192": matrices that share an input stand together; "f32 576" is a vector.
std::string describe(const kvp_op_request& request) {
    std::string described;
    std::string last;
    for (uint32_t i = 0; i < request.n_constants; ++i) {
        const kvp_tensor& tensor = *request.constants[i];
        const std::string input = format_name(tensor) + " " + std::to_string(columns(tensor));
        const bool joins = is_matrix(tensor) && input == last;
        if (!joins) described += (described.empty() ? "" : ", ") + input;
        if (is_matrix(tensor)) described += (joins ? "+" : ">") + std::to_string(tensor.view->shape[0]);
        last = is_matrix(tensor) ? input : "";
    }
    return described;
}

}  // namespace

// The calls that are timed or noted; every other goes straight to the plugin.
struct OpProfileHooks {
    static kvp_status prepare(kvp_device_object* device, const kvp_op_request* request, kvp_plan** plan) {
        OpProfile& profile = *active;
        if (const kvp_status status = profile.device_->op_prepare(device, request, plan); status != KVP_OK) {
            return status;
        }
        profile.add_plan(*plan, *request);
        return KVP_OK;
    }

    static void release(kvp_plan* plan) {
        active->plans_.erase(plan);
        active->device_->op_release(plan);
    }

    // Alone on the queue: what is there already ends before the clock starts, and the op before it stops.
    static kvp_status enqueue(kvp_queue* queue, const kvp_plan* plan, const kvp_tensor* const* operands,
                              uint32_t n_operands, const void* arguments) {
        using clock = std::chrono::steady_clock;
        OpProfile& profile = *active;
        if (const kvp_status status = finish(queue); status != KVP_OK) return status;
        const auto start = clock::now();
        if (const kvp_status status = profile.device_->op_enqueue(queue, plan, operands, n_operands, arguments);
            status != KVP_OK) {
            return status;
        }
        if (const kvp_status status = finish(queue); status != KVP_OK) return status;
        const std::chrono::duration<double> took = clock::now() - start;
        const auto found = profile.plans_.find(plan);
        if (found != profile.plans_.end())
            profile.add_call(found->second, operands, n_operands, arguments, took.count());
        return KVP_OK;
    }

    static kvp_status finish(kvp_queue* queue) {
        OpProfile& profile = *active;
        const auto found = profile.events_.find(queue);
        if (found == profile.events_.end()) return KVP_OK;  // the device had finished when enqueue returned
        auto& [event, value] = found->second;
        if (const kvp_status status = profile.device_->signal(queue, event, ++value); status != KVP_OK) return status;
        return profile.device_->host_wait(event, value, wait_forever_ns);
    }

    static kvp_status queue_create(kvp_device_object* device, int32_t priority, kvp_queue** queue) {
        OpProfile& profile = *active;
        const kvp_status status = profile.device_->queue_create(device, priority, queue);
        if (status != KVP_OK || (profile.flags_ & KVP_DEVICE_ASYNCHRONOUS) == 0) return status;
        kvp_event* event = nullptr;
        if (const kvp_status failed = profile.device_->event_create(device, &event); failed != KVP_OK) {
            profile.device_->queue_destroy(*queue);
            return failed;
        }
        profile.events_[*queue] = {event, 0};
        return KVP_OK;
    }

    static void queue_destroy(kvp_queue* queue) {
        OpProfile& profile = *active;
        if (const auto found = profile.events_.find(queue); found != profile.events_.end()) {
            profile.device_->event_destroy(found->second.first);
            profile.events_.erase(found);
        }
        profile.device_->queue_destroy(queue);
    }
};

OpProfile::OpProfile() {
    if (active != nullptr) throw Error(ErrorKind::runtime, "ops are being profiled already");
    active = this;
}

OpProfile::~OpProfile() {
    active = nullptr;
}

const kvp_device* OpProfile::wrap(const kvp_device* device) {
    if (device_ != nullptr && device_ != device) {
        throw Error(ErrorKind::usage, "a profile takes one device plugin; profile the pipelines one by one");
    }
    device_ = device;
    kvp_device_info info{};
    info.head.struct_size = sizeof(info);
    flags_ = device->count() > 0 && device->info(0, &info) == KVP_OK ? info.flags : 0;
    table_ = *device;
    table_.head.struct_size = sizeof(table_);
    table_.queue_create = OpProfileHooks::queue_create;
    table_.queue_destroy = OpProfileHooks::queue_destroy;
    table_.op_prepare = OpProfileHooks::prepare;
    table_.op_release = OpProfileHooks::release;
    table_.op_enqueue = OpProfileHooks::enqueue;
    return &table_;
}

void OpProfile::clear() {
    for (auto& [key, kind] : kinds_) kind.calls = 0, kind.seconds = kind.bytes = kind.flops = 0;
}

std::vector<OpCalls> OpProfile::calls() const {
    std::vector<OpCalls> found;
    for (const auto& [key, kind] : kinds_) {
        if (kind.calls > 0) found.push_back(kind);
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const OpCalls& a, const OpCalls& b) { return a.seconds > b.seconds; });
    return found;
}

void OpProfile::add_plan(const kvp_plan* plan, const kvp_op_request& request) {
    const std::string op = text(request.op), constants = describe(request);
    OpCalls& kind = kinds_[{op, constants}];
    kind.op = op;
    kind.constants = constants;
    Plan made{&kind, 0, 0, op == "kvp.embed/1"};
    for (uint32_t i = 0; i < request.n_constants; ++i) {
        const kvp_tensor& tensor = *request.constants[i];
        made.constant_bytes += static_cast<double>(tensor_view_bytes(tensor));
        if (!is_matrix(tensor)) continue;
        made.matrix_elements += static_cast<double>(tensor.view->shape[0] * columns(tensor));
        kind.quantised = kind.quantised || tensor.format.n_bytes != 0;
    }
    if (made.reads_rows && request.n_constants > 0) {
        made.constant_bytes /= static_cast<double>(request.constants[0]->view->shape[0]);
        made.matrix_elements = 0;
    }
    plans_[plan] = made;
}

void OpProfile::add_call(const Plan& plan, const kvp_tensor* const* operands, uint32_t n_operands,
                         const void* arguments, double seconds) {
    OpCalls& kind = *plan.calls;
    const auto n_rows = n_operands > 0 ? static_cast<double>(operands[0]->view->shape[0]) : 0;
    const OpTraffic traffic =
        op_traffic(kind.op, operands, n_operands, arguments, (flags_ & KVP_DEVICE_HOST_MEMORY) != 0);
    ++kind.calls;
    kind.seconds += seconds;
    kind.bytes += plan.constant_bytes * (plan.reads_rows ? n_rows : 1) + traffic.bytes;
    kind.flops += 2 * n_rows * plan.matrix_elements + traffic.flops;
}

}  // namespace kvplane
