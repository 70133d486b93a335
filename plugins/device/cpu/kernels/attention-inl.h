// Few queries over rows K||V of f32 or f16 as they lie in the cache, in f32: widened at each use.
#pragma once

#include "kernels/lanes-inl.h"
#include "kernels/online_softmax-inl.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

template <typename T, int Q, typename W>
HWY_INLINE void score_tile(const float* queries, int64_t query_stride, const Rows& rows, W width, float* out,
                           int64_t out_stride) {
    const int64_t whole = width / kLanes * kLanes;
    for (int64_t row = 0; row < rows.n; row += kLanes) {
        F quarters[Q][kLanes / 4];
        for (int64_t part = 0; part < kLanes / 4; ++part) {
            const T* four[4];
#pragma GCC unroll 4
            for (int64_t j = 0; j < 4; ++j) {
                const int64_t at = row + part * 4 + j;
                four[j] = row_at<T>(rows, at < rows.n ? at : rows.n - 1);
                prefetch_next(rows, at);
            }
            F total[Q][4];
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
                for (int j = 0; j < 4; ++j) total[q][j] = hn::Zero(kF);
            }
            for (int64_t i = 0; i < whole; i += kLanes) {
                F key[4];
#pragma GCC unroll 4
                for (int j = 0; j < 4; ++j) key[j] = load(four[j] + i);
#pragma GCC unroll 4
                for (int q = 0; q < Q; ++q) {
                    const F query = load(queries + q * query_stride + i);
#pragma GCC unroll 4
                    for (int j = 0; j < 4; ++j) total[q][j] = hn::MulAdd(query, key[j], total[q][j]);
                }
            }
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) {
                quarters[q][part] = sum_in_parts(total[q][0], total[q][1], total[q][2], total[q][3]);
            }
        }
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
            store_columns(sum_parts(quarters[q]), out + q * out_stride + row, rows.n - row, false);
            for (int64_t i = whole; i < width; ++i) {
                const float query = queries[q * query_stride + i];
                for (int64_t j = row; j < rows.n && j < row + kLanes; ++j) {
                    out[q * out_stride + j] += query * scalar(row_at<T>(rows, j)[i]);
                }
            }
        }
    }
}

template <typename T, int Q, int V>
HWY_INLINE void accumulate_columns(const float* weights, int64_t weight_stride, const Rows& rows, int64_t begin,
                                   float* out, int64_t out_stride) {
    F total[Q][V];
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) total[q][v] = load(out + q * out_stride + begin + v * kLanes);
    }
    const int64_t offset = rows.offset + begin * static_cast<int64_t>(sizeof(T));
    for (int64_t row = 0; row < rows.n; ++row) {
        const auto* values = reinterpret_cast<const T*>(rows.at[row] + offset);
        asm("" : "+r"(values));  // one register for the row, not one for each vector of it
        if (begin == 0) prefetch_next(rows, row);
        F value[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) value[v] = load(values + v * kLanes);
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
            const F weight = set(weights[q * weight_stride + row]);
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) total[q][v] = hn::MulAdd(weight, value[v], total[q][v]);
        }
    }
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) store(total[q][v], out + q * out_stride + begin + v * kLanes);
    }
}

template <typename T, int Q, typename W>
HWY_INLINE void accumulate_tile(const float* weights, int64_t weight_stride, const Rows& rows, W width, float* out,
                                int64_t out_stride) {
    constexpr int V = Level::kMultiplyVectors;
    int64_t begin = 0;
    for (; begin + V * kLanes <= width; begin += V * kLanes) {
        accumulate_columns<T, Q, V>(weights, weight_stride, rows, begin, out, out_stride);
    }
    for (; begin < width; begin += kLanes) {
        accumulate_columns<T, Q, 1>(weights, weight_stride, rows, begin, out, out_stride);
    }
}

// Four queries share each row that is read and widened; the rest go in a tile of their own number.
template <typename T, typename W>
void score_of_width(const float* queries, int64_t query_stride, int64_t n_queries, const Rows& rows, W width,
                    float* out, int64_t out_stride) {
    for (; n_queries >= 4; n_queries -= 4, queries += 4 * query_stride, out += 4 * out_stride) {
        score_tile<T, 4>(queries, query_stride, rows, width, out, out_stride);
    }
    switch (n_queries) {
        case 3: return score_tile<T, 3>(queries, query_stride, rows, width, out, out_stride);
        case 2: return score_tile<T, 2>(queries, query_stride, rows, width, out, out_stride);
        case 1: return score_tile<T, 1>(queries, query_stride, rows, width, out, out_stride);
        default: return;
    }
}

template <typename T>
void score_typed(const float* queries, int64_t query_stride, int64_t n_queries, const Rows& rows, int64_t width,
                 float* out, int64_t out_stride) {
    with_width(width,
               [&](auto known) { score_of_width<T>(queries, query_stride, n_queries, rows, known, out, out_stride); });
}

// Packed: as they are.
void pack_f32_queries(const float* queries, int64_t n_queries, int64_t width, void* packed) {
    for (int64_t q = 0; q < n_queries; ++q) {
        memcpy(static_cast<uint8_t*>(packed) + q * packed_query_bytes(width), queries + q * width,
               static_cast<size_t>(width) * sizeof(float));
    }
}

template <typename T>
void score_packed(const void* packed, int64_t n_queries, const Rows& rows, int64_t width, float* out,
                  int64_t out_stride) {
    const int64_t stride = packed_query_bytes(width) / static_cast<int64_t>(sizeof(float));
    score_typed<T>(static_cast<const float*>(packed), stride, n_queries, rows, width, out, out_stride);
}

template <typename T, typename W>
void accumulate_of_width(const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows, W width,
                         float* out, int64_t out_stride) {
    for (; n_queries >= 4; n_queries -= 4, weights += 4 * weight_stride, out += 4 * out_stride) {
        accumulate_tile<T, 4>(weights, weight_stride, rows, width, out, out_stride);
    }
    switch (n_queries) {
        case 3: return accumulate_tile<T, 3>(weights, weight_stride, rows, width, out, out_stride);
        case 2: return accumulate_tile<T, 2>(weights, weight_stride, rows, width, out, out_stride);
        case 1: return accumulate_tile<T, 1>(weights, weight_stride, rows, width, out, out_stride);
        default: return;
    }
}

template <typename T>
void accumulate_rows(const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows, int64_t width,
                     float* out, int64_t out_stride) {
    with_width(width, [&](auto known) {
        accumulate_of_width<T>(weights, weight_stride, n_queries, rows, known, out, out_stride);
    });
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
