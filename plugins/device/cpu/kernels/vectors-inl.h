// Vectors of f32 as wide as the level, and loads that widen to them.
#pragma once

#include "half.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::FixedTag<float, static_cast<size_t>(Level::kRows)>;
using F = hn::Vec<D>;
using D32 = hn::Rebind<int32_t, D>;
constexpr D kF;
constexpr D32 kI32;
constexpr int64_t kLanes = Level::kRows;
constexpr float kNegativeInfinity = -__builtin_inff();

HWY_INLINE F load(const float* p) {
    return hn::LoadU(kF, p);
}
HWY_INLINE F load(const hwy::float16_t* p) {
    return hn::PromoteTo(kF, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), p));
}
HWY_INLINE F load(const hwy::bfloat16_t* p) {
    return hn::PromoteTo(kF, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), p));
}
HWY_INLINE F load(const int8_t* p) {
    return hn::ConvertTo(kF, hn::PromoteTo(kI32, hn::LoadU(hn::Rebind<int8_t, D>(), p)));
}
HWY_INLINE F set(float x) {
    return hn::Set(kF, x);
}
HWY_INLINE void store(F v, float* p) {
    hn::StoreU(v, kF, p);
}

// The first `valid` lanes, or what is there plus them.
HWY_INLINE void store_columns(F value, float* out, int64_t valid, bool accumulate) {
    if (valid >= kLanes) {
        store(accumulate ? hn::Add(load(out), value) : value, out);
        return;
    }
    alignas(64) float lanes[kLanes];
    store(value, lanes);
    for (int64_t i = 0; i < valid; ++i) out[i] = accumulate ? out[i] + lanes[i] : lanes[i];
}

HWY_INLINE float scalar(float x) {
    return x;
}
HWY_INLINE float scalar(hwy::float16_t x) {
    return half_to_float(x.bits);
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
