// 2^x to the precision of f32.
#pragma once

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

constexpr float kLog2E = 1.44269504f;
constexpr float kLn2 = 0.693147181f;

// Minimax polynomial of 2^f on [-1/2, 1/2], relative error 2e-9. Below -126 the result stays at 2^-126 and above 127
// near 2^127.
HWY_INLINE F exp2_f32(F x) {
    x = hn::Min(hn::Max(x, set(-126.0f)), set(127.0f));
    const F whole = hn::Round(x);
    const F f = hn::Sub(x, whole);
    F power = hn::MulAdd(set(1.534581243e-4f), f, set(1.339993090e-3f));
    power = hn::MulAdd(power, f, set(9.618489072e-3f));
    power = hn::MulAdd(power, f, set(5.550328642e-2f));
    power = hn::MulAdd(power, f, set(2.402264625e-1f));
    power = hn::MulAdd(power, f, set(6.931471825e-1f));
    power = hn::MulAdd(power, f, set(1.0f));
    const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(kI32, whole));
    return hn::BitCast(kF, hn::Add(hn::BitCast(kI32, power), exponent));
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
