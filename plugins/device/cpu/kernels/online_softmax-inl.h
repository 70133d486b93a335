// The softmax of few queries over a block of scores, which goes on from that of the blocks before.
#pragma once

#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

HWY_INLINE F exponential_f32(F x) {
    return hn::Exp(kF, x);
}

// Most blocks leave the maximum as it is: they need no maximum of their own, only to know that none is larger.
template <F (*exponential)(F)>
void online_softmax(float* scores, int64_t score_stride, int64_t n_queries, const int32_t* visible, int64_t n,
                    float* maxima, float* sums, float* out, int64_t width) {
    for (int64_t q = 0; q < n_queries; ++q) {
        float* line = scores + q * score_stride;
        float* lane_sums = sums + q * 16;
        for (int64_t i = visible[q]; i < n; ++i) line[i] = kNegativeInfinity;
        F lanes = set(kNegativeInfinity);
        for (int64_t i = 0; i < n; i += kLanes) lanes = hn::Max(lanes, load(line + i));
        if (!hn::AllTrue(kF, hn::Le(lanes, set(maxima[q])))) {
            const float now = hn::GetLane(hn::MaxOfLanes(kF, lanes));
            const float correction = hn::GetLane(hn::Exp(kF, set(maxima[q] - now)));
            scale_row(out + q * width, correction, width);
            scale_row(lane_sums, correction, kLanes);
            maxima[q] = now;
        }
        const F maximum = set(maxima[q] == kNegativeInfinity ? 0.0f : maxima[q]);  // -inf less -inf would be NaN
        F total = load(lane_sums);
        for (int64_t i = 0; i < n; i += kLanes) {
            const F p = exponential(hn::Sub(load(line + i), maximum));
            total = hn::Add(total, p);
            store(p, line + i);
        }
        store(total, lane_sums);
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
