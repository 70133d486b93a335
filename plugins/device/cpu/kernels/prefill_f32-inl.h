// Attention of many queries in f32: a word is one element.
#pragma once

#include "kernels/exp2-inl.h"
#include "kernels/prefill_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

struct ArithmeticF32 {
    static constexpr int kElements = 1;

    static HWY_INLINE F dot(F sum, F a, F b) { return hn::MulAdd(a, b, sum); }
    static HWY_INLINE F ones() { return set(1.0f); }
    static HWY_INLINE F exp2(F x) { return exp2_f32(x); }
    static HWY_INLINE F word(const F (&powers)[1]) { return powers[0]; }
    static HWY_INLINE void scale_query(const float* q, float scale, int64_t head_size, float* words) {
        for (int64_t i = 0; i < head_size; i += kLanes) store(hn::Mul(load(q + i), set(scale)), words + i);
    }
};

template <typename T>
void widen_part(const Rows& rows, int64_t offset, int64_t scale, int64_t head_size, float* out) {
    const int64_t n = (rows.n + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
    for (int64_t row = 0; row < n; ++row) {
        for (int64_t i = 0; i < head_size; i += kLanes) {
            const F x = row < rows.n ? RowReader<T>(rows, row, scale).at(offset + i) : hn::Zero(kF);
            store(x, out + row * head_size + i);
        }
    }
}

void pack_rows_f32(RowType type, const Rows& rows, int64_t head_size, float* keys, float* values) {
    const auto run = type == RowType::F32   ? widen_part<float>
                     : type == RowType::F16 ? widen_part<hwy::float16_t>
                                            : widen_part<int8_t>;
    run(rows, 0, rows.scale, head_size, keys);
    run(rows, head_size, rows.scale + 2, head_size, values);
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
