#include "eval/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstdio>

namespace kvplane::tool {

std::string fingerprint(std::string_view bytes) {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx",
                  static_cast<unsigned long long>(XXH3_64bits(bytes.data(), bytes.size())));
    return text.data();
}

}  // namespace kvplane::tool
