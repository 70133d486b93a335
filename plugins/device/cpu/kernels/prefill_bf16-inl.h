// Attention of many queries with vdpbf16ps: a word is two elements of bf16. For cached rows of f16, whose ten bits of
// mantissa become seven.
#pragma once

#include "kernels/exp2_bf16-inl.h"
#include "kernels/prefill_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

// The bf16 of `low` in lanes 0 to 15 of words, those of `high` after them.
HWY_INLINE __m512i narrow(F low, F high) {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high.raw, low.raw));
}

struct ArithmeticBF16 {
    static constexpr int kElements = 2;

    static HWY_INLINE F dot(F sum, F a, F b) {
        return F{_mm512_dpbf16_ps(sum.raw, reinterpret_cast<__m512bh>(a.raw), reinterpret_cast<__m512bh>(b.raw))};
    }
    static HWY_INLINE F ones() { return hn::BitCast(kF, hn::Set(kI32, 0x3F803F80)); }

    // Half a step of a bf16 between 1 and 2 more, so that cutting the lower half off rounds.
    static HWY_INLINE F exp2(F x) { return exp2_bf16(x, 0x1p-8f); }
    // The upper halves of two powers.
    static HWY_INLINE F word(const F (&powers)[2]) {
        const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(powers[0].raw), 16);
        return F{_mm512_castsi512_ps(_mm512_mask_blend_epi16(0xAAAAAAAA, low, _mm512_castps_si512(powers[1].raw)))};
    }
    static HWY_INLINE void scale_query(const float* q, float scale, int64_t head_size, float* words) {
        for (int64_t i = 0; i < head_size; i += kLanes) {
            const __m512 x = _mm512_mul_ps(_mm512_loadu_ps(q + i), _mm512_set1_ps(scale));
            _mm256_storeu_ps(words + i / 2, reinterpret_cast<__m256>(_mm512_cvtneps_pbh(x)));
        }
    }
};

template <typename T>
void narrow_rows(const Rows& rows, int64_t head_size, float* keys, float* values) {
    const int64_t n = (rows.n + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
    const auto element = [&](int64_t row, int64_t i) {
        const int64_t scale = rows.scale + (i < head_size ? 0 : 2);
        return row < rows.n ? RowReader<T>(rows, row, scale).at(i) : hn::Zero(kF);
    };
    alignas(64) constexpr uint16_t kPairs[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i pairs = _mm512_load_si512(kPairs);
    for (int64_t row = 0; row < n; row += 2) {
        for (int64_t i = 0; i < head_size; i += kLanes) {
            const __m512i two = narrow(element(row, i), element(row + 1, i));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(keys + (row * head_size + i) / 2),
                                _mm512_castsi512_si256(two));
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(keys + ((row + 1) * head_size + i) / 2),
                                _mm512_extracti64x4_epi64(two, 1));
            const __m512i value = narrow(element(row, head_size + i), element(row + 1, head_size + i));
            _mm512_storeu_si512(values + row / 2 * head_size + i, _mm512_permutexvar_epi16(pairs, value));
        }
    }
}

void pack_rows_bf16(RowType type, const Rows& rows, int64_t head_size, float* keys, float* values) {
    const auto run = type == RowType::F32   ? narrow_rows<float>
                     : type == RowType::F16 ? narrow_rows<hwy::float16_t>
                                            : narrow_rows<int8_t>;
    run(rows, head_size, keys, values);
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
