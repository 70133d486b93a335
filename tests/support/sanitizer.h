// Whether this is a build for a sanitizer: there for addresses and races, not for values, and ten times slower.
#pragma once

#include <string_view>

#include "kvplane/manifest.h"

namespace kvplane::test {

inline constexpr bool is_sanitized = std::string_view(KVP_MANIFEST_SANITIZER) != "none";

}  // namespace kvplane::test
