// Values moved between lanes, and sums over them, for several rows at once.
#pragma once

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

using DBytes = hn::Repartition<uint8_t, D>;
using Bytes = hn::Vec<DBytes>;
constexpr DBytes kU8;
constexpr int64_t kVectorBytes = 4 * kLanes;
constexpr int64_t kVectorBlocks = kLanes / 4;  // of 128 bits

// In each block of 128 bits: turned[j] = unit j of rows 0, 1, 2, 3 and so on, units as wide as `Small`.
template <typename Small, typename Large>
HWY_INLINE void turn_rows(const Bytes (&rows)[4], Bytes (&turned)[4]) {
    const hn::Repartition<Small, D> small;
    const hn::Repartition<Large, D> large;
    const auto at = [&](int r) { return hn::BitCast(small, rows[r]); };
    const auto low01 = hn::BitCast(large, hn::InterleaveLower(small, at(0), at(1)));
    const auto low23 = hn::BitCast(large, hn::InterleaveLower(small, at(2), at(3)));
    const auto high01 = hn::BitCast(large, hn::InterleaveUpper(small, at(0), at(1)));
    const auto high23 = hn::BitCast(large, hn::InterleaveUpper(small, at(2), at(3)));
    turned[0] = hn::BitCast(kU8, hn::InterleaveLower(large, low01, low23));
    turned[1] = hn::BitCast(kU8, hn::InterleaveUpper(large, low01, low23));
    turned[2] = hn::BitCast(kU8, hn::InterleaveLower(large, high01, high23));
    turned[3] = hn::BitCast(kU8, hn::InterleaveUpper(large, high01, high23));
}

// Sums of four vectors, one after the other in each 128-bit part, still to be added over the parts.
// Blends and one shuffle for each addition, as there are fewer ports for shuffles, which products share.
HWY_INLINE F sum_in_parts(F a, F b, F c, F d) {
    const hn::Repartition<double, D> pairs;
    const auto halves = [&](F x, F y) {  // x0 + x2, x1 + x3, y0 + y2, y1 + y3
        const auto wide_x = hn::BitCast(pairs, x);
        const auto wide_y = hn::BitCast(pairs, y);
        const F crossed = hn::BitCast(kF, hn::OddEven(wide_x, wide_y));
        return hn::Add(hn::BitCast(kF, hn::OddEven(wide_y, wide_x)), hn::Shuffle1032(crossed));
    };
    const F ac = halves(a, c);
    const F bd = halves(b, d);
    return hn::Add(hn::OddEven(bd, ac), hn::Shuffle2301(hn::OddEven(ac, bd)));
}

// quarters[i] = sum_in_parts of rows 4i .. 4i + 3; result: lane r is the sum of row r.
HWY_INLINE F sum_parts(const F (&quarters)[kLanes / 4]) {
    if constexpr (kLanes == 4) {
        return quarters[0];
    } else if constexpr (kLanes == 8) {
        return hn::Add(hn::ConcatLowerLower(kF, quarters[1], quarters[0]),
                       hn::ConcatUpperUpper(kF, quarters[1], quarters[0]));
    } else {
        const F even = hn::Add(hn::ConcatLowerLower(kF, quarters[2], quarters[0]),
                               hn::ConcatUpperUpper(kF, quarters[2], quarters[0]));
        const F odd = hn::Add(hn::ConcatLowerLower(kF, quarters[3], quarters[1]),
                              hn::ConcatUpperUpper(kF, quarters[3], quarters[1]));
        return hn::OddEvenBlocks(hn::Add(odd, hn::SwapAdjacentBlocks(odd)),
                                 hn::Add(even, hn::SwapAdjacentBlocks(even)));
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
