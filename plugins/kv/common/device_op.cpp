#include "common/device_op.h"

#include <string>

#include "kvplane/sdk/host.hpp"

namespace kvplane::kv {

DeviceOp::DeviceOp(const kvp_kv_core& core, std::string_view id, const void* attributes,
                   std::initializer_list<const kvp_tensor*> constants)
    : core_(&core) {
    auto request = kvp::make<kvp_op_request>();
    request.op = kvp::str(id);
    request.attributes = attributes;
    request.constants = constants.size() == 0 ? nullptr : constants.begin();
    request.n_constants = static_cast<uint32_t>(constants.size());
    auto answer = kvp::make<kvp_op_answer>();
    if (const kvp_status status = core.op_support(core.object, &request, &answer); status != KVP_OK) {
        answer.reason[sizeof answer.reason - 1] = '\0';
        const std::string reason = answer.reason[0] != '\0' ? answer.reason : "it gave no reason";
        throw kvp::Failure(status, "the strategy needs the op " + std::string(id) + ", the device cannot: " + reason);
    }
    kvp::check(core.op_prepare(core.object, &request, &plan_));
}

DeviceOp::~DeviceOp() {
    if (plan_ != nullptr) core_->op_release(core_->object, plan_);
}

void DeviceOp::enqueue(kvp_kv_call* call, std::initializer_list<const kvp_tensor*> operands,
                       const void* arguments) const {
    kvp::check(core_->op_enqueue(call, plan_, operands.size() == 0 ? nullptr : operands.begin(),
                                 static_cast<uint32_t>(operands.size()), arguments));
}

}  // namespace kvplane::kv
