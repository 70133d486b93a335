// Few queries over F16 rows K||V as they lie in the cache, by vdpbf16ps.
//
// An f16 becomes a bf16 of 2^-112 times its value without a conversion: its exponent and mantissa are moved down by three
// bits, rounded, ties away from zero. Queries and weights carry the rest of the power. What f16 has below 2^-14 becomes 0.
// A product takes two neighbouring columns of a key, or one column of two values. Four keys are turned at once, so that
// no sum goes over the lanes of a block of 128 bits; both are done once for all queries.
#pragma once

#include "kernels/exp2-inl.h"
#include "kernels/exp2_bf16-inl.h"
#include "kernels/lanes-inl.h"
#include "kernels/online_softmax-inl.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

constexpr int64_t kColumns = 32;          // of a vector
constexpr float kWeightScale = 0x1p112f;  // weights are at most 1
constexpr float kQueryScale = 0x1p96f;    // leaves room for large queries; scores take the rest
constexpr float kScoreScale = 0x1p16f;

HWY_INLINE __m512i narrow_f16(__m512i x) {
    const __m512i rounded = _mm512_add_epi16(x, _mm512_set1_epi16(4));
    return _mm512_and_si512(_mm512_srai_epi16(rounded, 3), _mm512_set1_epi16(static_cast<int16_t>(0x8fff)));
}

// Columns [begin, begin + 32) of a row, zeros from `width` on.
template <typename W>
HWY_INLINE __m512i load_f16(const uint8_t* row, int64_t begin, W width) {
    const uint8_t* at = row + 2 * begin;
    if (begin + kColumns <= width) return narrow_f16(_mm512_loadu_si512(at));
    return narrow_f16(_mm512_maskz_loadu_epi16((1u << (width - begin)) - 1, at));
}

HWY_INLINE F dot_bf16(F sum, __m512i a, __m512i b) {
    return F{_mm512_dpbf16_ps(sum.raw, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b))};
}

// [vector of columns][word j of a block]: that word of the query in each of its block's four lanes, as four rows meet it.
// They carry log2(e) too, as in prefill, so that both round alike.
void pack_bf16_queries(const float* queries, int64_t n_queries, int64_t width, void* packed) {
    for (int64_t q = 0; q < n_queries; ++q) {
        auto* out = static_cast<uint8_t*>(packed) + q * packed_query_bytes(width);
        const float* x = queries + q * width;
        const __m512 scale = _mm512_set1_ps(kLog2E * kQueryScale);
        for (int64_t begin = 0; begin < width; begin += kColumns, out += 256) {
            const bool second = begin + 16 < width;
            const __m512 low = _mm512_mul_ps(_mm512_loadu_ps(x + begin), scale);
            const __m512 high = second ? _mm512_mul_ps(_mm512_loadu_ps(x + begin + 16), scale) : _mm512_setzero_ps();
            const __m512i words = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
            _mm512_storeu_si512(out, _mm512_shuffle_epi32(words, _MM_PERM_AAAA));
            _mm512_storeu_si512(out + 64, _mm512_shuffle_epi32(words, _MM_PERM_BBBB));
            _mm512_storeu_si512(out + 128, _mm512_shuffle_epi32(words, _MM_PERM_CCCC));
            _mm512_storeu_si512(out + 192, _mm512_shuffle_epi32(words, _MM_PERM_DDDD));
        }
    }
}

template <int Q, typename W>
HWY_INLINE void score_bf16_tile(const uint8_t* packed, const Rows& rows, W width, float* out, int64_t out_stride) {
    for (int64_t row = 0; row < rows.n; row += kLanes) {
        F quarters[Q][4];
        for (int64_t part = 0; part < 4; ++part) {
            const uint8_t* at[4];
#pragma GCC unroll 4
            for (int64_t r = 0; r < 4; ++r) {
                const int64_t index = row + part * 4 + r;
                at[r] = rows.at[index < rows.n ? index : rows.n - 1] + rows.offset;
                if (r % 2 == 0) prefetch_next(rows, index);
            }
            F sums[Q];
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) sums[q] = hn::Zero(kF);
            for (int64_t begin = 0; begin < width; begin += kColumns) {
                Bytes keys[4];
                Bytes turned[4];
#pragma GCC unroll 4
                for (int64_t r = 0; r < 4; ++r) keys[r] = Bytes{load_f16(at[r], begin, width)};
                turn_rows<uint32_t, uint64_t>(keys, turned);
#pragma GCC unroll 4
                for (int q = 0; q < Q; ++q) {
                    const uint8_t* query = packed + q * packed_query_bytes(width) + begin * 8;
#pragma GCC unroll 4
                    for (int64_t j = 0; j < 4; ++j) {
                        sums[q] = dot_bf16(sums[q], turned[j].raw, _mm512_loadu_si512(query + 64 * j));
                    }
                }
            }
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) quarters[q][part] = sums[q];
        }
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
            store(hn::Mul(sum_parts(quarters[q]), set(kScoreScale * kLn2)), out + q * out_stride + row);
        }
    }
}

template <typename W>
void score_bf16_of_width(const uint8_t* packed, int64_t n_queries, const Rows& rows, W width, float* out,
                         int64_t out_stride) {
    const int64_t bytes = packed_query_bytes(width);
    for (; n_queries >= 4; n_queries -= 4, packed += 4 * bytes, out += 4 * out_stride) {
        score_bf16_tile<4>(packed, rows, width, out, out_stride);
    }
    switch (n_queries) {
        case 3: return score_bf16_tile<3>(packed, rows, width, out, out_stride);
        case 2: return score_bf16_tile<2>(packed, rows, width, out, out_stride);
        case 1: return score_bf16_tile<1>(packed, rows, width, out, out_stride);
        default: return;
    }
}

void score_bf16_rows(const void* packed, int64_t n_queries, const Rows& rows, int64_t width, float* out,
                     int64_t out_stride) {
    with_width(width, [&](auto known) {
        score_bf16_of_width(static_cast<const uint8_t*>(packed), n_queries, rows, known, out, out_stride);
    });
}

// exp to a relative error of 8e-5, as the weights are rounded to 2^-8 afterwards.
HWY_INLINE F exponential_bf16(F x) {
    return exp2_bf16(hn::Mul(x, set(kLog2E)), 0.0f);
}

// Weights of one query, two rows a word.
struct WeightPairs {
    alignas(64) int32_t words[kBlockRows / 2];

    HWY_INLINE void set(const float* weights, int64_t n) {
        for (int64_t i = 0; i < n; i += kLanes) {
            const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(weights + i), _mm512_set1_ps(kWeightScale));
            _mm256_store_si256(reinterpret_cast<__m256i*>(words + i / 2),
                               reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(scaled)));
        }
    }
};

// out's 32 columns += sums over the lower and the upper half of each block of 128 bits of the values.
HWY_INLINE void add_halves(F lower, F upper, int64_t n_columns, float* out) {
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    store(hn::Add(load(out), F{_mm512_permutex2var_ps(lower.raw, first, upper.raw)}), out);
    if (n_columns <= 16) return;
    store(hn::Add(load(out + 16), F{_mm512_permutex2var_ps(lower.raw, second, upper.raw)}), out + 16);
}

// V vectors of columns from `begin` on.
template <int Q, int V, typename W>
HWY_INLINE void accumulate_bf16_columns(const WeightPairs* weights, const Rows& rows, int64_t begin, W width,
                                        float* out, int64_t out_stride) {
    F lower[Q][V];
    F upper[Q][V];
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) lower[q][v] = upper[q][v] = hn::Zero(kF);
    }
    for (int64_t row = 0; row < rows.n; row += 2) {
        const uint8_t* first = rows.at[row] + rows.offset;
        const uint8_t* second = rows.at[row + 1 < rows.n ? row + 1 : row] + rows.offset;
        if (begin == 0) prefetch_next(rows, row);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) {
            const __m512i a = load_f16(first, begin + v * kColumns, width);
            const __m512i b = load_f16(second, begin + v * kColumns, width);
            const __m512i low = _mm512_unpacklo_epi16(a, b);
            const __m512i high = _mm512_unpackhi_epi16(a, b);
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) {
                const __m512i pair = _mm512_set1_epi32(weights[q].words[row / 2]);
                lower[q][v] = dot_bf16(lower[q][v], low, pair);
                upper[q][v] = dot_bf16(upper[q][v], high, pair);
            }
        }
    }
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) {
            const int64_t at = begin + v * kColumns;
            add_halves(lower[q][v], upper[q][v], width - at, out + q * out_stride + at);
        }
    }
}

template <int Q, typename W>
HWY_INLINE void accumulate_bf16_tile(const float* weights, int64_t weight_stride, const Rows& rows, W width, float* out,
                                     int64_t out_stride) {
    WeightPairs pairs[Q];
    for (int q = 0; q < Q; ++q) pairs[q].set(weights + q * weight_stride, rows.n);
    int64_t begin = 0;
    for (; begin + 2 * kColumns <= width; begin += 2 * kColumns) {
        accumulate_bf16_columns<Q, 2>(pairs, rows, begin, width, out, out_stride);
    }
    for (; begin < width; begin += kColumns) {
        accumulate_bf16_columns<Q, 1>(pairs, rows, begin, width, out, out_stride);
    }
}

template <typename W>
void accumulate_bf16_of_width(const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows, W width,
                              float* out, int64_t out_stride) {
    for (; n_queries >= 4; n_queries -= 4, weights += 4 * weight_stride, out += 4 * out_stride) {
        accumulate_bf16_tile<4>(weights, weight_stride, rows, width, out, out_stride);
    }
    switch (n_queries) {
        case 3: return accumulate_bf16_tile<3>(weights, weight_stride, rows, width, out, out_stride);
        case 2: return accumulate_bf16_tile<2>(weights, weight_stride, rows, width, out, out_stride);
        case 1: return accumulate_bf16_tile<1>(weights, weight_stride, rows, width, out, out_stride);
        default: return;
    }
}

void accumulate_bf16_rows(const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows,
                          int64_t width, float* out, int64_t out_stride) {
    with_width(width, [&](auto known) {
        accumulate_bf16_of_width(weights, weight_stride, n_queries, rows, known, out, out_stride);
    });
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
