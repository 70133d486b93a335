#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvplane::tool {

// XXH3 of the bytes, as 16 hexadecimal digits.
std::string fingerprint(std::string_view bytes);

template <class Number>
std::string fingerprint_of(std::span<const Number> values) {
    return fingerprint({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

}  // namespace kvplane::tool
