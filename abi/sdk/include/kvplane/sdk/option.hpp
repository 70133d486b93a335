// SDK, options: the table of a plugin's TOML keys, as constant data.
//
//   constexpr auto options = kvp::options(kvp::option_i64("sinks", "4", 0, 1e6, "first rows, always attended"),
//                                         kvp::option_choice("mode", "fast", "fast|exact", "how it counts"));
//   constexpr auto option_pointers = kvp::pointers(options);
#pragma once

#include <array>

#include "kvplane/host.h"
#include "kvplane/sdk/base.hpp"

namespace kvp {

// All texts must be literals: the table keeps their addresses.
constexpr kvp_option option(uint32_t type, std::string_view key, std::string_view default_value, double minimum,
                            double maximum, std::string_view choices, std::string_view doc) {
    auto made = make<kvp_option>();
    made.key = str(key);
    made.type = type;
    made.default_value = str(default_value);
    made.minimum = minimum;
    made.maximum = maximum;
    made.choices = str(choices);
    made.doc = str(doc);
    return made;
}

constexpr kvp_option option_bool(std::string_view key, std::string_view default_value, std::string_view doc) {
    return option(KVP_OPTION_BOOL, key, default_value, 0, 1, "", doc);
}
constexpr kvp_option option_i64(std::string_view key, std::string_view default_value, double minimum, double maximum,
                                std::string_view doc) {
    return option(KVP_OPTION_I64, key, default_value, minimum, maximum, "", doc);
}
constexpr kvp_option option_f64(std::string_view key, std::string_view default_value, double minimum, double maximum,
                                std::string_view doc) {
    return option(KVP_OPTION_F64, key, default_value, minimum, maximum, "", doc);
}
constexpr kvp_option option_choice(std::string_view key, std::string_view default_value, std::string_view choices,
                                   std::string_view doc) {
    return option(KVP_OPTION_STR, key, default_value, 0, 0, choices, doc);
}

template <typename... Option>
constexpr std::array<kvp_option, sizeof...(Option)> options(Option... option) {
    return {option...};
}

// The table must have static storage.
template <size_t n>
constexpr std::array<const kvp_option*, n> pointers(const std::array<kvp_option, n>& table) {
    std::array<const kvp_option*, n> found{};
    for (size_t i = 0; i < n; i++) found[i] = &table[i];
    return found;
}

}  // namespace kvp
