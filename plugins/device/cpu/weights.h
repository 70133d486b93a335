// Weight matrices as they come, in the formats that the plugin reads.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "kvplane/tensor.h"

namespace kvplane::cpu {

struct Weights {
    PanelFormat format;
    const uint8_t* data;
    int64_t rows;
    int64_t columns;  // elements
    int64_t stride_bytes;

    const uint8_t* row(int64_t index) const { return data + index * stride_bytes; }
};

// Block layouts of GGUF: f16 scale (and f16 minimum for Q4_1), then 32 bytes or 16 bytes of two nibbles, of which the
// low one of byte j is element j and the high one element j + 16. Super-blocks of K-quants: k_blocks.h.
constexpr int64_t block_bytes(PanelFormat format) {
    switch (format) {
        case PanelFormat::Q8_0: return 34;
        case PanelFormat::Q4_0: return 18;
        case PanelFormat::Q4_1: return 20;
        case PanelFormat::Q4_K: return 144;
        case PanelFormat::Q5_K: return 176;
        case PanelFormat::Q6_K: return 210;
        default: return 0;
    }
}
constexpr int64_t block_elements(PanelFormat format) {
    return is_k_quant(format) ? kSuperBlock : kBlock;
}
constexpr int64_t block_header_bytes(PanelFormat format) {
    return format == PanelFormat::Q4_1 ? 4 : 2;
}

// Throws PluginError that says which formats there are.
Weights weights_of(const kvp_tensor& tensor, const char* name);

void decode_row(const Weights& weights, int64_t row, float* out);

}  // namespace kvplane::cpu
