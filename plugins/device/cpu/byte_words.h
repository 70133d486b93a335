// Four packed bytes as one word, for what rearranges weights: bytes stay where they are, so their order does not matter.
#pragma once

#include <cstdint>
#include <cstring>

namespace kvplane::cpu {

inline uint32_t load_word(const uint8_t* p) {
    uint32_t word;
    std::memcpy(&word, p, sizeof word);
    return word;
}

inline void store_word(uint8_t* p, uint32_t word) {
    std::memcpy(p, &word, sizeof word);
}

// The low nibbles of a below those of b, or the high ones of both.
inline uint32_t join_low_nibbles(uint32_t a, uint32_t b) {
    return (a & 0x0F0F0F0Fu) | (b & 0x0F0F0F0Fu) << 4;
}
inline uint32_t join_high_nibbles(uint32_t a, uint32_t b) {
    return (a >> 4 & 0x0F0F0F0Fu) | (b & 0xF0F0F0F0u);
}

}  // namespace kvplane::cpu
