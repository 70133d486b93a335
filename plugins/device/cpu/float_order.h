// Integers in the order of floats.
#pragma once

#include <cstdint>

#include "half.h"

namespace kvplane::cpu {

// a < b as floats means order_key(a) < order_key(b); -0 counts as 0.
inline int32_t order_key(float x) {
    const auto bits = static_cast<int32_t>(float_to_bits(x + 0.0f));
    return bits ^ static_cast<int32_t>(static_cast<uint32_t>(bits >> 31) >> 1);
}

}  // namespace kvplane::cpu
