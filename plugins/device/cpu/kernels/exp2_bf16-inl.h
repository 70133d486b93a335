// 2^x for what becomes bf16 afterwards.
#pragma once

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

// Minimax polynomial of 2^f on [0, 1), relative error 8e-5, plus `more` between 1 and 2.
HWY_INLINE F exp2_bf16(F x, float more) {
    const __m512 f = _mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 power = _mm512_fmadd_ps(_mm512_set1_ps(0.0780245215f), f, _mm512_set1_ps(0.226067156f));
    power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(0.695833564f));
    power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(0.999925196f + more));
    return F{_mm512_scalef_ps(power, x.raw)};
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
