// SDK, half: f16 and bf16 by integers, to the nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

namespace kvp {

inline float half_to_float(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 31u;
    const uint32_t mantissa = bits & 1023u;
    uint32_t wide = sign | (exponent + 112u) << 23 | mantissa << 13;
    if (exponent == 31) wide = sign | 0x7F800000u | mantissa << 13;
    float x;
    std::memcpy(&x, &wide, sizeof x);
    if (exponent == 0) x = static_cast<float>(mantissa) * (sign != 0 ? -0x1p-24f : 0x1p-24f);
    return x;
}

// What is too large becomes infinity.
inline uint16_t float_to_half(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
    if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
    if (magnitude < 0x38800000u) {  // below the smallest normal half: multiples of 2^-24
        float small;
        std::memcpy(&small, &magnitude, sizeof small);
        const float shifted = small + 0.5f;  // rounds there
        uint32_t rounded;
        std::memcpy(&rounded, &shifted, sizeof rounded);
        return static_cast<uint16_t>(sign | (rounded - 0x3F000000u));
    }
    const uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
}

inline float bfloat_to_float(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float x;
    std::memcpy(&x, &wide, sizeof x);
    return x;
}

inline uint16_t float_to_bfloat(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits | 0x400000u) >> 16);
    return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace kvp
