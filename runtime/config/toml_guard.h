// A look at a TOML text before the parser: outside of strings and comments TOML knows ASCII alone, and control
// characters nowhere. toml++ 3.3.0 runs into undefined behaviour on such characters (found by
// tests/fuzz/pipeline_fuzz.cpp), so they are refused here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvplane {

struct ForbiddenCharacter {
    uint32_t line = 1;    // from 1
    uint32_t column = 1;  // from 1, in characters
    bool is_control = false;
};

// The first such character. A text whose quotes do not match is looked at as far as the parser would come.
std::optional<ForbiddenCharacter> find_forbidden_character(std::string_view text);

}  // namespace kvplane
