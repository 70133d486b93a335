// One op of the device, prepared: asks whether the device has it, says why not, gives the plan back.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "kvplane/kv.h"
#include "kvplane/sdk/tensor.hpp"

namespace kvplane::kv {

class DeviceOp {
public:
    DeviceOp() = default;  // nothing prepared
    // Throws kvp::Failure(KVP_UNSUPPORTED) with the device's reason.
    DeviceOp(const kvp_kv_core& core, std::string_view id, const void* attributes = nullptr,
             std::initializer_list<const kvp_tensor*> constants = {});
    ~DeviceOp();
    DeviceOp(DeviceOp&& other) noexcept : core_(other.core_), plan_(std::exchange(other.plan_, nullptr)) {}
    DeviceOp& operator=(DeviceOp&& other) noexcept {
        std::swap(core_, other.core_);
        std::swap(plan_, other.plan_);
        return *this;
    }

    explicit operator bool() const { return plan_ != nullptr; }

    // Throws kvp::Passed with the core's status.
    void enqueue(kvp_kv_call* call, std::initializer_list<const kvp_tensor*> operands,
                 const void* arguments = nullptr) const;

private:
    const kvp_kv_core* core_ = nullptr;
    kvp_plan* plan_ = nullptr;
};

}  // namespace kvplane::kv
