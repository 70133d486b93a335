// Weights in panels of 16 rows (kernels.h). A panel of width w in blocks of 32, b = w / 32 of them:
//   Q8_0        b times u8[8][16][4]: weight + 128 of elements 4s .. 4s + 3 of each row; then f16[16] scales
//   Q4_0, Q4_1  b times u8[4][16][4]: byte j of step s: element 8s + j low, 8s + 4 + j high; then f16[16] scales, and
//               of Q4_1 f16[16] minima
//   Q4_K, Q5_K, Q6_K  packed_k_weights.h
//   F32, F16, BF16  [w][16]
// padded to 64 bytes; rows past the end are zero. As large as what was packed, but for that. All of a block stands in one
// place, so that a product reads its weights as one run of memory.
#pragma once

#include "memory.h"
#include "thread_pool.h"
#include "weights.h"

namespace kvplane::cpu {

struct PackedWeights {
    PanelFormat format;
    int64_t rows;
    int64_t width;
    int64_t panel_bytes;
    Memory memory;

    int64_t n_panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
};

uint64_t packed_bytes(PanelFormat format, int64_t rows, int64_t width);

// `format` is the weights' own, or F32, which takes any.
PackedWeights pack(const Weights& weights, PanelFormat format, ThreadPool& pool);

}  // namespace kvplane::cpu
