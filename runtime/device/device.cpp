#include "device/device.h"

#include <utility>
#include <vector>

#include "base/error.h"

namespace kvplane {

namespace {
constexpr uint64_t wait_forever_ns = 600'000'000'000;  // ten minutes: a device that is silent for longer is lost
constexpr uint64_t memory_alignment = 64;

// A kvp_op_request with the array that it points to.
struct OpRequest {
    OpRequest(std::string_view op, const void* attributes, std::span<const Tensor* const> tensors, int64_t max_rows) {
        for (const Tensor* tensor : tensors) constants.push_back(tensor->abi());
        abi.head.struct_size = sizeof(abi);
        abi.op = {op.data(), op.size()};
        abi.attributes = attributes;
        abi.constants = constants.data();
        abi.n_constants = static_cast<uint32_t>(constants.size());
        abi.max_rows = max_rows;
    }
    OpRequest(const OpRequest&) = delete;

    kvp_op_request abi{};
    std::vector<const kvp_tensor*> constants;
};
}  // namespace

Buffer::Buffer(Device& device, uint64_t bytes, std::string_view what) : device_(&device), bytes_(bytes) {
    if (bytes == 0) return;
    const kvp_status status = device.table_->alloc(device.object_, bytes, memory_alignment, &address_);
    if (status != KVP_OK) {
        throw Error(ErrorKind::memory, "device " + device.name() + " has no " + std::to_string(bytes) + " bytes for " +
                                           std::string(what) + ": " + device.explain_(status) +
                                           "; lower tiers.device.kv_bytes, the context or the number of sequences");
    }
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      address_(std::exchange(other.address_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

Buffer::~Buffer() {
    if (address_ != 0) device_->table_->free(device_->object_, address_, bytes_);
}

Plan::Plan(Plan&& other) noexcept : table_(other.table_), plan_(std::exchange(other.plan_, nullptr)) {}

Plan& Plan::operator=(Plan&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(plan_, other.plan_);
    return *this;
}

Plan::~Plan() {
    if (plan_ != nullptr) table_->op_release(plan_);
}

Device::Device(const kvp_device* table, uint32_t index, Explain explain) : table_(table), explain_(std::move(explain)) {
    const uint32_t count = table_->count();
    if (index >= count) {
        throw Error(ErrorKind::plugin, "no device " + std::to_string(index) + ": the plugin found " +
                                           std::to_string(count) + " (" + explain_(KVP_NOT_FOUND) + ")");
    }
    info_.head.struct_size = sizeof(info_);
    check(table_->info(index, &info_), "describing the device");
    check(table_->open(index, &object_), "opening the device");
    check(table_->queue_create(object_, 0, &queue_), "making a queue");
    check(table_->event_create(object_, &event_), "making an event");
}

Device::~Device() {
    if (event_ != nullptr) table_->event_destroy(event_);
    if (queue_ != nullptr) table_->queue_destroy(queue_);
    if (object_ != nullptr) table_->close(object_);
}

void Device::check(kvp_status status, std::string_view doing) {
    if (status == KVP_OK) return;
    const ErrorKind kind = status == KVP_ERROR_MEMORY ? ErrorKind::memory : ErrorKind::plugin;
    throw Error(kind, "the device plugin failed at " + std::string(doing) + ": " + explain_(status));
}

kvp_status Device::op_support(const kvp_op_request& request, kvp_op_answer& answer) {
    answer = {};
    answer.head.struct_size = sizeof(answer);
    const kvp_status status = table_->op_support(object_, &request, &answer);
    answer.reason[sizeof(answer.reason) - 1] = '\0';
    return status;
}

bool Device::supports(std::string_view op, const void* attributes, std::span<const Tensor* const> constants,
                      int64_t max_rows) {
    const OpRequest request(op, attributes, constants, max_rows);
    kvp_op_answer answer;
    return op_support(request.abi, answer) == KVP_OK;
}

Plan Device::prepare(std::string_view op, const void* attributes, std::span<const Tensor* const> constants,
                     int64_t max_rows) {
    const OpRequest request(op, attributes, constants, max_rows);
    kvp_op_answer answer;
    if (op_support(request.abi, answer) != KVP_OK) {
        throw Error(ErrorKind::plugin,
                    "device " + name() + " cannot run " + std::string(op) + ": " + std::string(answer.reason));
    }
    kvp_plan* plan = nullptr;
    check(table_->op_prepare(object_, &request.abi, &plan), "preparing " + std::string(op));
    return Plan(table_, plan);
}

void Device::enqueue(const Plan& plan, std::span<const Tensor* const> operands, const void* arguments) {
    const kvp_tensor* raw[16];
    uint32_t n = 0;
    for (const Tensor* tensor : operands) {
        if (n == std::size(raw)) throw Error(ErrorKind::runtime, "an op has more than 16 operands");
        raw[n++] = tensor->abi();
    }
    check(table_->op_enqueue(queue_, plan.get(), raw, n, arguments), "running an op");
}

void Device::copy(std::span<const kvp_copy_region> regions) {
    if (regions.empty()) return;
    check(table_->copy(queue_, regions.data(), static_cast<uint32_t>(regions.size())), "copying");
}

void Device::synchronise() {
    check(table_->signal(queue_, event_, ++event_value_), "signalling");
    check(table_->host_wait(event_, event_value_, wait_forever_ns), "waiting for the device");
}

void Device::upload(kvp_address to, const void* from, uint64_t bytes) {
    const kvp_copy_region region{reinterpret_cast<kvp_address>(from), to, bytes};
    copy({&region, 1});
    synchronise();
}

void Device::download(void* to, kvp_address from, uint64_t bytes) {
    const kvp_copy_region region{from, reinterpret_cast<kvp_address>(to), bytes};
    copy({&region, 1});
    synchronise();
}

}  // namespace kvplane
