// A small f32 matrix product on row-major arrays that fit the caches: attention tiles, projections, statistics.
#pragma once

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

struct Matrices {
    const float* a;
    int64_t a_stride;
    int64_t a_step;
    const float* b;
    int64_t b_stride;
    float* c;
    int64_t c_stride;
    int64_t k;
    bool accumulate;
};

template <int R, int V>
HWY_INLINE void multiply_tile(const Matrices& in, int64_t row, int64_t column) {
    const float* a = in.a + row * in.a_stride;
    const float* b = in.b + column;
    float* c = in.c + row * in.c_stride + column;
    F total[R][V];
    for (int r = 0; r < R; ++r) {
        for (int v = 0; v < V; ++v) total[r][v] = in.accumulate ? load(c + r * in.c_stride + v * kLanes) : set(0.0f);
    }
    for (int64_t i = 0; i < in.k; ++i) {
        F w[V];
        for (int v = 0; v < V; ++v) w[v] = load(b + i * in.b_stride + v * kLanes);
        for (int r = 0; r < R; ++r) {
            const F x = set(a[r * in.a_stride + i * in.a_step]);
            for (int v = 0; v < V; ++v) total[r][v] = hn::MulAdd(x, w[v], total[r][v]);
        }
    }
    for (int r = 0; r < R; ++r) {
        for (int v = 0; v < V; ++v) store(total[r][v], c + r * in.c_stride + v * kLanes);
    }
}

template <int V, int R>
HWY_INLINE void multiply_rows(const Matrices& in, int64_t row, int64_t m, int64_t column) {
    for (; row + R <= m; row += R) multiply_tile<R, V>(in, row, column);
    if constexpr (R > 1) {
        if (row < m) multiply_rows<V, R - 1>(in, row, m, column);
    }
}

void multiply(const float* a, int64_t a_stride, int64_t a_step, const float* b, int64_t b_stride, float* c,
              int64_t c_stride, int64_t m, int64_t k, int64_t n, bool accumulate) {
    constexpr int V = Level::kMultiplyVectors;
    const Matrices in{a, a_stride, a_step, b, b_stride, c, c_stride, k, accumulate};
    int64_t column = 0;
    for (; column + V * kLanes <= n; column += V * kLanes) multiply_rows<V, Level::kMultiplyRows>(in, 0, m, column);
    for (; column + kLanes <= n; column += kLanes) multiply_rows<1, Level::kMultiplyRows>(in, 0, m, column);
    for (; column < n; ++column) {
        for (int64_t row = 0; row < m; ++row) {
            float sum = accumulate ? c[row * c_stride + column] : 0.0f;
            for (int64_t i = 0; i < k; ++i) sum += a[row * a_stride + i * a_step] * b[i * b_stride + column];
            c[row * c_stride + column] = sum;
        }
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
