// SDK, base: strings and struct heads. The SDK is header-only C++17 comfort over the C headers: it adds nothing to the
// ABI, and a plugin may use any part of it or none.
#pragma once

#include <string_view>

#include "kvplane/base.h"

namespace kvp {

constexpr kvp_str str(std::string_view text) {
    return {text.data(), text.size()};
}

constexpr std::string_view view(kvp_str text) {
    return text.data == nullptr ? std::string_view() : std::string_view(text.data, static_cast<size_t>(text.n_bytes));
}

// A struct of the ABI with its size written and everything else zero.
template <typename Struct>
constexpr Struct make() {
    Struct made{};
    made.head.struct_size = static_cast<uint32_t>(sizeof(Struct));
    return made;
}

}  // namespace kvp
