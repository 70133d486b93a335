// f16 and bf16 by integers, for the few places where no vector is at hand. `static`: each file keeps its own copy, so
// that none compiled for a higher instruction set can stand in for the others.
#pragma once

#include <stdint.h>
#include <string.h>

namespace kvplane::cpu {

static inline float bits_to_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t float_to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

[[maybe_unused]] static inline float bfloat_to_float(uint16_t bits) {
    return bits_to_float(static_cast<uint32_t>(bits) << 16);
}

[[maybe_unused]] static inline float half_to_float(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 31u;
    const uint32_t mantissa = bits & 1023u;
    if (exponent == 31) return bits_to_float(sign | 0x7F800000u | mantissa << 13);
    if (exponent != 0) return bits_to_float(sign | (exponent + 112u) << 23 | mantissa << 13);
    const float tiny = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -tiny : tiny;
}

// Nearest, ties to even, as the hardware does; too large becomes infinity.
[[maybe_unused]] static inline uint16_t float_to_half(float x) {
    const uint32_t bits = float_to_bits(x);
    const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
    if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
    if (magnitude < 0x38800000u) {  // below the smallest normal half: let the f32 adder round at 2^-24
        const float shifted = bits_to_float(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (float_to_bits(shifted) - float_to_bits(0.5f)));
    }
    const uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
}

}  // namespace kvplane::cpu
