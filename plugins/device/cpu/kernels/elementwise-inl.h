// One pass over a row each: norms, activations, rotations, conversions, sums of columns.
#pragma once

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

void rms_norm(const float* x, const float* weight, float epsilon, float* out, int64_t n) {
    F squares[2] = {hn::Zero(kF), hn::Zero(kF)};
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
        const F first = load(x + i);
        const F second = load(x + i + kLanes);
        squares[0] = hn::MulAdd(first, first, squares[0]);
        squares[1] = hn::MulAdd(second, second, squares[1]);
    }
    float sum = hn::GetLane(hn::SumOfLanes(kF, hn::Add(squares[0], squares[1])));
    for (; i < n; ++i) sum += x[i] * x[i];
    const float scale = 1.0f / __builtin_sqrtf(sum / static_cast<float>(n) + epsilon);
    for (i = 0; i + kLanes <= n; i += kLanes)
        store(hn::Mul(hn::Mul(load(x + i), set(scale)), load(weight + i)), out + i);
    for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

// Highway's exp wraps around above 88, where 1 + exp(-x) is as good as infinite anyway.
HWY_INLINE F silu(F x) {
    const F power = hn::Exp(kF, hn::Min(hn::Neg(x), set(88.0f)));
    return hn::Div(x, hn::Add(set(1.0f), power));
}

void swiglu(const float* gate, const float* up, float* out, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(hn::Mul(silu(load(gate + i)), load(up + i)), out + i);
    if (i == n) return;
    alignas(64) float rest[kLanes] = {};
    for (int64_t j = 0; i + j < n; ++j) rest[j] = gate[i + j];
    store(silu(load(rest)), rest);
    for (int64_t j = 0; i + j < n; ++j) out[i + j] = rest[j] * up[i + j];
}

void rotate_halves(float* x, const float* cosines, const float* sines, int64_t n_pairs) {
    for (int64_t i = 0; i < n_pairs; ++i) {
        const float a = x[i];
        const float b = x[i + n_pairs];
        x[i] = a * cosines[i] - b * sines[i];
        x[i + n_pairs] = a * sines[i] + b * cosines[i];
    }
}

void rotate_interleaved(float* x, const float* cosines, const float* sines, int64_t n_pairs) {
    int64_t i = 0;
    for (; i + kLanes <= n_pairs; i += kLanes) {
        F a;
        F b;
        hn::LoadInterleaved2(kF, x + 2 * i, a, b);
        const F c = load(cosines + i);
        const F s = load(sines + i);
        hn::StoreInterleaved2(hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c)), kF, x + 2 * i);
    }
    for (; i < n_pairs; ++i) {
        const float a = x[2 * i];
        const float b = x[2 * i + 1];
        x[2 * i] = a * cosines[i] - b * sines[i];
        x[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
}

uint16_t to_int8(const float* x, int8_t* out, int64_t n) {
    float most = 0;
    float finite = 0;  // NaN if any is infinite or NaN, and so is the scale then: int8 cannot say so
    for (int64_t i = 0; i < n; ++i) {
        const float magnitude = __builtin_fabsf(x[i]);
        most = magnitude > most ? magnitude : most;
        finite += x[i] * 0.0f;
    }
    const uint16_t bits = float_to_half(most / 127 + finite);
    const float scale = half_to_float(bits);
    for (int64_t i = 0; i < n; ++i) {
        float value = scale > 0 ? __builtin_rintf(x[i] / scale) : 0.0f;
        value = value > 127.0f ? 127.0f : value;
        value = value < -127.0f ? -127.0f : value;
        out[i] = static_cast<int8_t>(value);
    }
    return bits;
}

void to_f16(const float* x, uint16_t* out, int64_t n) {
    int64_t i = 0;
    if constexpr (kLanes >= 8) {  // Highway truncates where there is no F16C
        const hn::Rebind<hwy::float16_t, D> narrow;
        for (; i + kLanes <= n; i += kLanes) {
            hn::StoreU(hn::DemoteTo(narrow, load(x + i)), narrow, reinterpret_cast<hwy::float16_t*>(out + i));
        }
    }
    for (; i < n; ++i) out[i] = float_to_half(x[i]);
}

void shift_add(const float* x, float shift, float* total, int64_t n) {
    for (int64_t i = 0; i < n; ++i) total[i] += x[i] - shift;
}

void column_sums(const float* x, int64_t stride, int64_t n_rows, int64_t n, float* absolute, float* plain,
                 float* squares) {
    for (int64_t row = 0; row < n_rows; ++row) {
        const float* line = x + row * stride;
        for (int64_t i = 0; i < n; ++i) {
            absolute[i] += __builtin_fabsf(line[i]);
            plain[i] += line[i];
            squares[i] += line[i] * line[i];
        }
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
