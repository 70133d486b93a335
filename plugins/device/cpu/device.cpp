#include "device.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>

#include "device_table.h"
#include "error.h"
#include "op.h"
#include "processors.h"

namespace kvplane::cpu {
namespace {

constexpr kvp_str text(std::string_view chars) {
    return {chars.data(), chars.size()};
}

uint32_t n_threads() {
    int64_t value = 0;
    if (host()->option_i64(host()->context, text("threads"), &value) != KVP_OK) value = 0;
    if (value < 0 || value > 1024) invalid("threads = " + std::to_string(value) + " is not between 0 (all) and 1024");
    return value == 0 ? default_threads() : static_cast<uint32_t>(value);
}

// Where the threads are tied to, if the user asked for that. Under a quota a tied thread would wait for its turn while
// other processors are free.
std::vector<int> processors_to_tie() {
    uint32_t wanted = 0;
    if (host()->option_bool(host()->context, text("pin_threads"), &wanted) != KVP_OK || wanted == 0) return {};
    if (!processor_quota()) return allowed_processors();
    host()->log(host()->context, KVP_LOG_WARN, text("pin_threads is left out: a control group limits this process"));
    return {};
}

template <typename T>
T& checked(T* object, const char* what) {
    if (object == nullptr) invalid(std::string(what) + " is NULL");
    return *object;
}

uint32_t count() {
    return guarded([] { choose_isa(); }) == KVP_OK ? 1 : 0;
}

kvp_status info(uint32_t index, kvp_device_info* info) {
    return guarded([&] {
        checked(info, "info");
        if (index != 0) invalid("there is one CPU device, of index 0");
        const Isa isa = choose_isa();
        kvp_device_info filled = {};
        filled.head = info->head;
        filled.id = text("cpu");
        filled.name = text("CPU");
        filled.arch = text(isa.arch);
        filled.dl_type = kDLCPU;
        filled.flags = KVP_DEVICE_HOST_MEMORY | KVP_DEVICE_READS_PINNED;
        filled.total_bytes =
            static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
        filled.n_threads = n_threads();
        filled.alignment_bytes = kAlignment;
        std::memcpy(info, &filled, std::min<size_t>(info->head.struct_size, sizeof filled));
    });
}

kvp_status open(uint32_t index, kvp_device_object** device) {
    return guarded([&] {
        checked(device, "device");
        if (index != 0) invalid("there is one CPU device, of index 0");
        *device = new kvp_device_object(n_threads(), processors_to_tie());
    });
}

void close(kvp_device_object* device) {
    delete device;
}

kvp_status alloc(kvp_device_object* device, uint64_t n_bytes, uint64_t alignment, kvp_address* address) {
    return guarded([&] {
        checked(device, "device");
        if ((alignment & (alignment - 1)) != 0)
            invalid("alignment " + std::to_string(alignment) + " is no power of two");
        checked(address, "address") = reinterpret_cast<kvp_address>(allocate(n_bytes, alignment).release());
    });
}

void free_memory(kvp_device_object*, kvp_address address, uint64_t) {
    std::free(reinterpret_cast<void*>(address));
}

kvp_status pin(kvp_device_object*, void* memory, uint64_t, kvp_address* address) {
    return guarded([&] { checked(address, "address") = reinterpret_cast<kvp_address>(memory); });
}

void unpin(kvp_device_object*, void*, uint64_t) {}

kvp_status queue_create(kvp_device_object* device, int32_t, kvp_queue** queue) {
    return guarded([&] { checked(queue, "queue") = new kvp_queue{checked(device, "device"), {}}; });
}

void queue_destroy(kvp_queue* queue) {
    delete queue;
}

kvp_status event_create(kvp_device_object*, kvp_event** event) {
    return guarded([&] { checked(event, "event") = new kvp_event(); });
}

void event_destroy(kvp_event* event) {
    delete event;
}

kvp_status host_signal(kvp_event* event, uint64_t value) {
    return guarded([&] {
        std::lock_guard lock(checked(event, "event").mutex);
        event->value = std::max(event->value, value);
        event->changed.notify_all();
    });
}

kvp_status signal(kvp_queue*, kvp_event* event, uint64_t value) {
    return host_signal(event, value);
}

kvp_status event_query(kvp_event* event, uint64_t* value) {
    return guarded([&] {
        std::lock_guard lock(checked(event, "event").mutex);
        checked(value, "value") = event->value;
    });
}

// The queue runs on its caller, so it is the caller that waits: for a transfer's thread, or another queue's.
kvp_status wait(kvp_queue*, kvp_event* event, uint64_t value) {
    return guarded([&]() -> kvp_status {
        std::unique_lock lock(checked(event, "event").mutex);
        const auto reached = [&] { return event->value >= value; };
        while (!event->changed.wait_for(lock, std::chrono::milliseconds(20), reached)) {
            if (host()->is_stopping(host()->context) != 0) return KVP_STOPPED;
        }
        return KVP_OK;
    });
}

kvp_status host_wait(kvp_event* event, uint64_t value, uint64_t timeout_ns) {
    return guarded([&]() -> kvp_status {
        constexpr uint64_t kLongest = uint64_t{1} << 60;  // what a time point can hold
        std::unique_lock lock(checked(event, "event").mutex);
        const std::chrono::nanoseconds timeout(std::min(timeout_ns, kLongest));
        if (event->changed.wait_for(lock, timeout, [&] { return event->value >= value; })) return KVP_OK;
        set_error("the event did not reach its value in time");
        return KVP_ERROR_TIMEOUT;
    });
}

kvp_status copy(kvp_queue* queue, const kvp_copy_region* regions, uint32_t n_regions) {
    return guarded([&] {
        if (n_regions > 0) checked(regions, "regions");
        for (uint32_t i = 0; i < n_regions; ++i) {
            if (regions[i].n_bytes > 0 && (regions[i].from == 0 || regions[i].to == 0)) {
                invalid("copy region " + std::to_string(i) + " has address 0");
            }
        }
        constexpr int64_t kRegionsPerPart = 8;
        checked(queue, "queue")
            .device.pool.run_ranges(n_regions, kRegionsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
                for (int64_t i = begin; i < end; ++i) {
                    if (regions[i].n_bytes == 0) continue;
                    std::memcpy(reinterpret_cast<void*>(regions[i].to), reinterpret_cast<const void*>(regions[i].from),
                                regions[i].n_bytes);
                }
            });
    });
}

const Operation& operation_of(const kvp_op_request* request) {
    if (!KVP_COVERS(kvp_op_request, request, max_rows)) invalid("the op request is NULL or too short");
    const std::string id(request->op.data != nullptr ? request->op.data : "", request->op.n_bytes);
    const Operation* operation = find_operation(id);
    if (operation == nullptr) unsupported("the cpu plugin has no op " + id);
    return *operation;
}

kvp_status op_support(kvp_device_object* device, const kvp_op_request* request, kvp_op_answer* answer) {
    kvp_op_answer filled = {};
    const kvp_status status = guarded([&] {
        try {
            filled.packed_bytes = operation_of(request).check(checked(device, "device"), Request(*request));
        } catch (const PluginError& error) {
            std::strncpy(filled.reason, error.what(), sizeof filled.reason - 1);
            throw;
        }
    });
    if (answer != nullptr) {
        filled.head = answer->head;
        std::memcpy(answer, &filled, std::min<size_t>(answer->head.struct_size, sizeof filled));
    }
    return status == KVP_ERROR_INVALID ? KVP_UNSUPPORTED : status;
}

kvp_status op_prepare(kvp_device_object* device, const kvp_op_request* request, kvp_plan** plan) {
    return guarded([&] {
        checked(plan, "plan");
        const Operation& operation = operation_of(request);
        operation.check(checked(device, "device"), Request(*request));
        *plan = operation.prepare(*device, Request(*request)).release();
    });
}

void op_release(kvp_plan* plan) {
    delete plan;
}

kvp_status op_enqueue(kvp_queue* queue, const kvp_plan* plan, const kvp_tensor* const* operands, uint32_t n_operands,
                      const void* arguments) {
    return guarded(
        [&] { checked(plan, "plan").run(checked(queue, "queue"), Operands(operands, n_operands), arguments); });
}

}  // namespace

const kvp_device* device_table() {
    static constexpr kvp_device table = {
        KVP_HEAD(kvp_device),
        count,
        info,
        open,
        close,
        alloc,
        free_memory,
        pin,
        unpin,
        queue_create,
        queue_destroy,
        event_create,
        event_destroy,
        signal,
        wait,
        event_query,
        host_wait,
        host_signal,
        copy,
        op_support,
        op_prepare,
        op_release,
        op_enqueue,
    };
    return &table;
}

}  // namespace kvplane::cpu
