// The three character classes that pre-tokenisers ask for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "tokenizer/unicode_tables.h"

namespace kvplane {

enum class CharacterClass : uint8_t { letter, number, space, other };

template <size_t count>
bool in_ranges(const UnicodeRange (&ranges)[count], uint32_t code_point) noexcept {
    const auto after =
        std::upper_bound(std::begin(ranges), std::end(ranges), code_point,
                         [](uint32_t wanted, const UnicodeRange& range) { return wanted < range.first; });
    return after != std::begin(ranges) && code_point <= std::prev(after)->last;
}

// \p{L}, \p{N}, \s (the White_Space property), or none of them.
inline CharacterClass character_class(uint32_t code_point) noexcept {
    using enum CharacterClass;
    if (code_point < 0x80) {
        if ((code_point | 0x20) - 'a' < 26) return letter;
        if (code_point - '0' < 10) return number;
        return code_point == ' ' || code_point - '\t' < 5 ? space : other;
    }
    switch (code_point) {
        case 0x85:
        case 0xa0:
        case 0x1680:
        case 0x2028:
        case 0x2029:
        case 0x202f:
        case 0x205f:
        case 0x3000: return space;
        default: break;
    }
    if (code_point - 0x2000 < 11) return space;
    if (in_ranges(letter_ranges, code_point)) return letter;
    return in_ranges(number_ranges, code_point) ? number : other;
}

}  // namespace kvplane
