#include "engine/shadow_rows.h"

#include <algorithm>

namespace kvplane {

void ShadowRows::add(uint64_t sequence, uint32_t layer, int64_t position, int64_t n_cached, std::span<const float> keys,
                     std::span<const float> values, size_t width) {
    ShadowLayer& shadow = sequences_[sequence][layer];
    if (shadow.keys.size() != static_cast<size_t>(position) * width) return;
    shadow.keys.insert(shadow.keys.end(), keys.begin(), keys.end());
    shadow.values.insert(shadow.values.end(), values.begin(), values.end());
    for (std::vector<int32_t>& tokens : shadow.tokens) {
        tokens.resize(static_cast<size_t>(n_cached));
        for (size_t i = 0; i < keys.size() / width; ++i)
            tokens.push_back(static_cast<int32_t>(position + static_cast<int64_t>(i)));
    }
}

void ShadowRows::rows_moved(uint64_t sequence, uint32_t layer, int64_t n_rows,
                            const std::vector<std::vector<int32_t>>& from) {
    const auto found = sequences_.find(sequence);
    if (found == sequences_.end()) return;
    const auto shadow = found->second.find(layer);
    if (shadow == found->second.end()) return;
    std::vector<std::vector<int32_t>> tokens(from.size());
    for (uint32_t head = 0; head < from.size(); ++head) {
        for (int32_t row : from[head]) {
            if (row < n_rows) tokens[head].push_back(shadow->second.token(head, row));
        }
    }
    shadow->second.tokens = std::move(tokens);
}

void ShadowRows::fork(uint64_t from, uint64_t to) {
    if (const auto found = sequences_.find(from); found != sequences_.end()) sequences_[to] = found->second;
}

void ShadowRows::rewind(uint64_t sequence, int64_t n_tokens, size_t width) {
    const auto found = sequences_.find(sequence);
    if (found == sequences_.end()) return;
    for (auto& [layer, shadow] : found->second) {
        const size_t size = std::min(shadow.keys.size(), static_cast<size_t>(n_tokens) * width);
        shadow.keys.resize(size);
        shadow.values.resize(size);
        for (std::vector<int32_t>& tokens : shadow.tokens) {
            while (!tokens.empty() && tokens.back() >= n_tokens) tokens.pop_back();
        }
    }
}

void ShadowRows::close(uint64_t sequence) {
    sequences_.erase(sequence);
}

const ShadowLayer* ShadowRows::find(uint64_t sequence, uint32_t layer) const {
    const auto found = sequences_.find(sequence);
    if (found == sequences_.end()) return nullptr;
    const auto shadow = found->second.find(layer);
    return shadow == found->second.end() ? nullptr : &shadow->second;
}

}  // namespace kvplane
