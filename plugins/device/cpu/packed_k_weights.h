// K-quants in panels of 16 rows (kernels.h), super-block after super-block, so that one stream of bytes has all that a
// kernel needs next. A super-block of 16 rows, every part a multiple of 64 bytes:
//   Q4_K  u8[8][4][16][4]   byte j of step s of a sub-block: element 8s + j low, 8s + 4 + j high
//         u8[8][16] scales, u8[8][16] minima, f16[16] d, f16[16] dmin
//   Q5_K  as Q4_K, with u8[8][16][4] after the nibbles: bit s of byte j is bit 4 of element 4s + j of the sub-block
//   Q6_K  the nibbles of Q4_K, then u8[16][16][4]: bits 2s, 2s + 1 of byte j are bits 4, 5 of element 4s + j of a
//         sub-block of 16, then i8[16][16] scales, f16[16] d, 32 bytes of padding
// 3 % larger than the file's Q4_K, 2 % than its Q5_K, 1 % than its Q6_K.
#pragma once

#include "weights.h"

namespace kvplane::cpu {

// Writes row `row` as lane `lane` of a panel.
void pack_k_row(const Weights& weights, int64_t row, uint8_t* panel, int64_t lane);

}  // namespace kvplane::cpu
