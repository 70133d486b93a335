// Super-blocks of the K-quants of GGUF: 256 elements with one f16 scale, cut into sub-blocks with small scales of
// their own.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace kvplane::cpu {

// Q4_K, Q5_K: value = d * scales[i / 32] * quants[i] - d_minimum * minima[i / 32], quants from 0 to 15 or 31.
// Q6_K:       value = d * scales[i / 16] * (quants[i] - 32), quants from 0 to 63, scales signed.
struct KScales {
    uint8_t scales[16];  // int8_t of Q6_K as bits; the others use the first eight
    uint8_t minima[8];
    uint16_t d;  // f16, as the next
    uint16_t d_minimum;
};

KScales read_k_scales(PanelFormat format, const uint8_t* in);

// A super-block's values.
void decode_k_block(PanelFormat format, const uint8_t* in, float* out);

}  // namespace kvplane::cpu
