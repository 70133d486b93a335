// What a call of an op reads, writes and computes beyond its constants, by its operands and arguments (kvplane/ops.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "kvplane/ops.h"
#include "kvplane/tensor.h"

namespace kvplane {

struct OpTraffic {
    double bytes = 0;
    double flops = 0;
};

uint64_t tensor_view_bytes(const kvp_tensor& tensor);

// Cached rows count once a call, however many queries read them. Counts of selected rows are read where they are, so the
// device must be one whose memory the host reads; elsewhere `host_reads` is false and the most that they can be counts.
OpTraffic op_traffic(std::string_view op, const kvp_tensor* const* operands, uint32_t n_operands, const void* arguments,
                     bool host_reads);

}  // namespace kvplane
