// Few queries over rows K||V as they lie in the cache, widened at each use.
#pragma once

#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

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
void score_typed(const float* queries, int64_t query_stride, int64_t n_queries, const Rows& rows, W width, float* out,
                 int64_t out_stride) {
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

template <typename W>
void score_of_width(RowType type, const float* queries, int64_t query_stride, int64_t n_queries, const Rows& rows,
                    W width, float* out, int64_t out_stride) {
    const auto run = type == RowType::F16 ? score_typed<hwy::float16_t, W> : score_typed<float, W>;
    run(queries, query_stride, n_queries, rows, width, out, out_stride);
}

void score_rows(RowType type, const float* queries, int64_t query_stride, int64_t n_queries, const Rows& rows,
                int64_t width, float* out, int64_t out_stride) {
    const auto run = [&](auto known) {
        score_of_width(type, queries, query_stride, n_queries, rows, known, out, out_stride);
    };
    width == 64 ? run(Width<64>()) : width == 128 ? run(Width<128>()) : run(width);
}

template <typename T, typename W>
void accumulate_typed(const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows, W width,
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

template <typename W>
void accumulate_of_width(RowType type, const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows,
                         W width, float* out, int64_t out_stride) {
    const auto run = type == RowType::F16 ? accumulate_typed<hwy::float16_t, W> : accumulate_typed<float, W>;
    run(weights, weight_stride, n_queries, rows, width, out, out_stride);
}

void accumulate_rows(RowType type, const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows,
                     int64_t width, float* out, int64_t out_stride) {
    const auto run = [&](auto known) {
        accumulate_of_width(type, weights, weight_stride, n_queries, rows, known, out, out_stride);
    };
    width == 64 ? run(Width<64>()) : width == 128 ? run(Width<128>()) : run(width);
}

// Most blocks leave the maximum as it is: they need no maximum of their own, only to know that none is larger.
void softmax_rows(float* scores, int64_t score_stride, int64_t n_queries, const int32_t* visible, int64_t n,
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
            const F p = hn::Exp(kF, hn::Sub(load(line + i), maximum));
            total = hn::Add(total, p);
            store(p, line + i);
        }
        store(total, lane_sums);
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
