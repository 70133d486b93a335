// How single metadata values lie in a GGUF file; shared by the parser and the accessors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "model/gguf.h"

namespace kvplane {

// Values in the file have no alignment.
template <class T>
T load(const std::byte* source) noexcept {
    T value;
    std::memcpy(&value, source, sizeof value);
    return value;
}

// Bytes of one value; 0 for strings and arrays, whose size is not fixed.
constexpr uint64_t value_bytes(GgufType type) noexcept {
    switch (type) {
        case GgufType::u8:
        case GgufType::i8:
        case GgufType::boolean: return 1;
        case GgufType::u16:
        case GgufType::i16: return 2;
        case GgufType::u32:
        case GgufType::i32:
        case GgufType::f32: return 4;
        case GgufType::u64:
        case GgufType::i64:
        case GgufType::f64: return 8;
        case GgufType::string:
        case GgufType::array: return 0;
    }
    return 0;
}

// `text` on one line, cut to about `width` bytes; control and malformed bytes as \xHH. Safe to send to a terminal.
std::string printable(std::string_view text, size_t width);

}  // namespace kvplane
