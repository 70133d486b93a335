// Many queries over a block of cached rows that is widened to f32 for all of them.
#pragma once

#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

template <typename T>
void widen_typed(const Rows& rows, int64_t width, float* out) {
    for (int64_t row = 0; row < rows.n; ++row) {
        const T* in = row_at<T>(rows, row);
        prefetch_next<T>(rows, row, width);
        for (int64_t i = 0; i < width; i += kLanes) store(load(in + i), out + row * width + i);
    }
}

void widen_rows(RowType type, const Rows& rows, int64_t width, float* out) {
    const auto run = type == RowType::F16 ? widen_typed<hwy::float16_t> : widen_typed<float>;
    run(rows, width, out);
}

void softmax_columns(float* scores, int64_t n_queries, const int32_t* visible, int64_t n, float* maxima, float* sums,
                     float* out, int64_t n_out, int64_t width) {
    const F nothing = set(kNegativeInfinity);
    for (int64_t q = 0; q < n_queries; q += kLanes) {
        const auto seen = hn::LoadU(kI32, visible + q);
        const bool masked = !hn::AllTrue(kI32, hn::Gt(seen, hn::Set(kI32, static_cast<int32_t>(n - 1))));
        F now = load(maxima + q);
        for (int64_t i = 0; i < n; ++i) {
            float* line = scores + i * n_queries + q;
            F score = load(line);
            if (masked) {
                const auto shown = hn::Gt(seen, hn::Set(kI32, static_cast<int32_t>(i)));
                score = hn::IfThenElse(hn::RebindMask(kF, shown), score, nothing);
                store(score, line);
            }
            now = hn::Max(now, score);
        }
        const F finite = hn::IfThenElse(hn::Eq(now, nothing), hn::Zero(kF), now);
        F total = hn::Zero(kF);
        for (int64_t i = 0; i < n; ++i) {
            float* line = scores + i * n_queries + q;
            const F p = hn::Exp(kF, hn::Sub(load(line), finite));
            total = hn::Add(total, p);
            store(p, line);
        }
        const F correction = hn::Exp(kF, hn::Sub(load(maxima + q), finite));
        store(hn::MulAdd(load(sums + q), correction, total), sums + q);
        const bool moved = !hn::AllTrue(kF, hn::Eq(load(maxima + q), now));
        store(now, maxima + q);
        if (!moved) continue;
        alignas(64) float factors[kLanes];
        store(correction, factors);
        for (int64_t i = 0; i < kLanes && q + i < n_out; ++i) scale_row(out + (q + i) * width, factors[i], width);
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
