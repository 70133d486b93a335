// Statuses of the ABI as text for people.
#pragma once

#include <kvplane/base.h>

#include <string>
#include <string_view>

namespace kvplane {

// "an input, output or copy failed (KVP_ERROR_IO)"
std::string describe_status(kvp_status status);

// What a plugin sent, without trusting it to be there.
inline std::string to_string(kvp_str text) {
    return text.data == nullptr ? "" : std::string(text.data, text.n_bytes);
}

inline kvp_str to_kvp_str(std::string_view text) {
    return {text.data(), text.size()};
}

}  // namespace kvplane
