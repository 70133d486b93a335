// Strict UTF-8 decoding (Unicode 16, table 3-7): no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvplane {

struct Utf8Character {
    uint32_t code_point;  // U+FFFD where the bytes are not valid
    uint32_t length;      // bytes it takes; of bad bytes, the longest start of a character, and at least 1
    bool valid;
    bool incomplete;  // not valid only because the text ends inside the character
};

// The character at `at`, which must be less than text.size().
inline Utf8Character decode_utf8(std::string_view text, size_t at) noexcept {
    const auto byte = [&](size_t offset) { return static_cast<uint8_t>(text[at + offset]); };
    const uint8_t first = byte(0);
    if (first < 0x80) return {first, 1, true, false};
    const uint32_t length = first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;
    if (length == 1) return {0xfffd, 1, false, false};
    // The second byte has a narrower range where a wider one would give an overlong form, a surrogate or > U+10FFFF.
    const uint8_t lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const uint8_t highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    uint32_t code_point = first & (0x7fu >> length);
    for (uint32_t i = 1; i < length; ++i) {
        if (at + i >= text.size()) return {0xfffd, i, false, true};
        const uint8_t next = byte(i);
        const bool fits = i == 1 ? next >= lowest && next <= highest : (next & 0xc0) == 0x80;
        if (!fits) return {0xfffd, i, false, false};
        code_point = code_point << 6 | (next & 0x3fu);
    }
    return {code_point, length, true, false};
}

inline bool is_utf8(std::string_view text) noexcept {
    for (size_t at = 0; at < text.size();) {
        const Utf8Character character = decode_utf8(text, at);
        if (!character.valid) return false;
        at += character.length;
    }
    return true;
}

}  // namespace kvplane
