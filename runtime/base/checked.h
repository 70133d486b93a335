// Size arithmetic on numbers that come from outside. Every sum and product of untrusted counts goes through here:
// the answer is empty on overflow, and the caller says what the number was.
#pragma once

#include <cstdint>
#include <optional>

namespace kvplane {

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
    return sum;
}

inline std::optional<uint64_t> checked_multiply(uint64_t a, uint64_t b) {
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
    return product;
}

// Rounds up to a multiple of `step`, a power of two.
inline std::optional<uint64_t> checked_round_up(uint64_t value, uint64_t step) {
    auto sum = checked_add(value, step - 1);
    if (!sum) return std::nullopt;
    return *sum & ~(step - 1);
}

}  // namespace kvplane
