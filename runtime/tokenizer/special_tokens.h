// Finds the texts of special tokens in a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvplane {

class SpecialTokens {
public:
    struct Match {
        size_t position, length;
        int32_t id;
    };

    // Of two tokens with one text the first added counts.
    void add(std::string_view text, int32_t id);

    // The leftmost match at or after `from`; of several at one place, the longest.
    std::optional<Match> find(std::string_view text, size_t from) const;

private:
    std::map<std::string, int32_t, std::less<>> ids_;
    std::array<std::vector<size_t>, 256> lengths_;  // of the texts with this first byte; longest first, each once
};

}  // namespace kvplane
