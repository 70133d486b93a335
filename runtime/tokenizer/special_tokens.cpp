#include "tokenizer/special_tokens.h"

#include <algorithm>

namespace kvplane {

void SpecialTokens::add(std::string_view text, int32_t id) {
    if (text.empty()) return;
    ids_.try_emplace(std::string(text), id);
    auto& lengths = lengths_[static_cast<uint8_t>(text.front())];
    const auto place = std::lower_bound(lengths.begin(), lengths.end(), text.size(), std::greater<>());
    if (place == lengths.end() || *place != text.size()) lengths.insert(place, text.size());
}

std::optional<SpecialTokens::Match> SpecialTokens::find(std::string_view text, size_t from) const {
    for (size_t position = from; position < text.size(); ++position) {
        for (const size_t length : lengths_[static_cast<uint8_t>(text[position])]) {
            if (length > text.size() - position) continue;
            const auto found = ids_.find(text.substr(position, length));
            if (found != ids_.end()) return Match{position, length, found->second};
        }
    }
    return std::nullopt;
}

}  // namespace kvplane
