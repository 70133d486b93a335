// Activations to int8, in blocks that share a scale.
#pragma once

#include <stddef.h>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

using D4 = hn::FixedTag<float, 4>;
using D4I32 = hn::FixedTag<int32_t, 4>;

// The four sums or maxima of four vectors, side by side.
template <class D, class Combine>
HWY_INLINE hn::Vec<hn::FixedTag<hn::TFromD<D>, 4>> reduce_four(D d, const hn::Vec<D> (&in)[4], const Combine& combine) {
    if constexpr (hn::MaxLanes(D()) > 4) {
        const hn::Half<D> half;
        hn::Vec<hn::Half<D>> halves[4];
        for (int i = 0; i < 4; ++i) halves[i] = combine(hn::LowerHalf(half, in[i]), hn::UpperHalf(half, in[i]));
        return reduce_four(half, halves, combine);
    } else {
        const auto first = combine(hn::InterleaveLower(d, in[0], in[1]), hn::InterleaveUpper(d, in[0], in[1]));
        const auto second = combine(hn::InterleaveLower(d, in[2], in[3]), hn::InterleaveUpper(d, in[2], in[3]));
        return combine(hn::ConcatLowerLower(d, second, first), hn::ConcatUpperUpper(d, second, first));
    }
}

// Up to four blocks at a time, as a sum or a maximum across one vector takes longer than all the rest. Of fewer than
// four, the last one stands for those that are missing.
HWY_INLINE void quantise_blocks(const float* x, int64_t n, ActivationBlock* blocks) {
    constexpr D4 four;
    constexpr D4I32 four_i32;
    constexpr hn::Rebind<uint32_t, D> bits;
    constexpr hn::Rebind<uint8_t, D> bytes;
    F largest[4];
    for (int64_t i = 0; i < 4; ++i) {
        const float* in = x + (i < n ? i : n - 1) * kBlock;
        largest[i] = hn::Abs(load(in));
        for (int64_t j = kLanes; j < kBlock; j += kLanes) largest[i] = hn::Max(largest[i], hn::Abs(load(in + j)));
    }
    const auto maxima = reduce_four(kF, largest, [](auto a, auto b) { return hn::Max(a, b); });
    const auto scales = hn::Div(maxima, hn::Set(four, 127.0f));
    alignas(16) float inverses[4];
    hn::Store(hn::IfThenElseZero(hn::Gt(maxima, hn::Zero(four)), hn::Div(hn::Set(four, 127.0f), maxima)), four,
              inverses);
    // 1.5 * 2^23: what is added to it is rounded to an integer, which then stands in the low bits.
    constexpr float kRounder = 12582912.0f;
    constexpr uint32_t kRounderBits = 0x4B400000;
    constexpr int64_t kHalf = kBlock / 2;
    hn::Vec<D32> totals[2][4];
    for (int64_t half = 0; half < 2; ++half) {
        for (int64_t i = 0; i < 4; ++i) {
            const int64_t block = i < n ? i : n - 1;
            const F inverse = set(inverses[i]);
            auto total = hn::Set(kI32, static_cast<int32_t>(0u - kRounderBits * static_cast<uint32_t>(kHalf / kLanes)));
            for (int64_t j = half * kHalf; j < (half + 1) * kHalf; j += kLanes) {
                const F rounded = hn::MulAdd(load(x + block * kBlock + j), inverse, set(kRounder));
                total = hn::Add(total, hn::BitCast(kI32, rounded));
                hn::StoreU(hn::TruncateTo(bytes, hn::BitCast(bits, rounded)), bytes,
                           reinterpret_cast<uint8_t*>(blocks[block].values + j));
            }
            totals[half][i] = total;
        }
    }
    const auto add = [](auto a, auto b) { return hn::Add(a, b); };
    const auto first = reduce_four(kI32, totals[0], add);
    const auto second = reduce_four(kI32, totals[1], add);
    const auto sums = hn::Add(first, second);
    const auto scaled_sums = hn::Mul(scales, hn::ConvertTo(four, sums));
    const auto minus_8_sums = hn::Neg(hn::ShiftLeft<3>(sums));
    alignas(16) int32_t scales_and_sums[4][4];  // what follows the values in a block
    alignas(16) int32_t minus_32_sums[4][2];
    hn::StoreInterleaved4(hn::BitCast(four_i32, scales), hn::BitCast(four_i32, scaled_sums),
                          hn::ShiftLeft<4>(minus_8_sums), minus_8_sums, four_i32, scales_and_sums[0]);
    hn::StoreInterleaved2(hn::Neg(hn::ShiftLeft<5>(first)), hn::Neg(hn::ShiftLeft<5>(second)), four_i32,
                          minus_32_sums[0]);
    static_assert(offsetof(ActivationBlock, minus_32_sums) ==
                  offsetof(ActivationBlock, scale) + sizeof scales_and_sums[0]);
    for (int64_t i = 0; i < n; ++i) {
        memcpy(reinterpret_cast<uint8_t*>(blocks + i) + offsetof(ActivationBlock, scale), scales_and_sums[i],
               sizeof scales_and_sums[i]);
        memcpy(blocks[i].minus_32_sums, minus_32_sums[i], sizeof minus_32_sums[i]);
    }
}

void quantise_row(const float* x, int64_t width, ActivationBlock* blocks) {
    const int64_t n_blocks = width / kBlock;
    int64_t block = 0;
    for (; block + 4 <= n_blocks; block += 4) quantise_blocks(x + block * kBlock, 4, blocks + block);
    if (block < n_blocks) quantise_blocks(x + block * kBlock, n_blocks - block, blocks + block);
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
