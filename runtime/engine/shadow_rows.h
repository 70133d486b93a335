// A copy of K and V of every token that a sequence has seen, in f32 on the host, of some layers; and which token each
// cached row is of. What a strategy lets go or a codec rounds is still here, so that dense attention can be computed beside.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace kvplane {

struct ShadowLayer {
    // [token][kv_heads * head_size]
    std::vector<float> keys, values;
    // [kv_head][cached row]: its token; empty as long as row r is token r.
    std::vector<std::vector<int32_t>> tokens;

    int32_t token(uint32_t kv_head, int64_t row) const {
        return tokens.empty() ? static_cast<int32_t>(row) : tokens[kv_head][static_cast<size_t>(row)];
    }
};

class ShadowRows {
public:
    // Rows of a step in a layer, [n][width], the first of them the token at `position`; `n_cached` rows were cached before.
    // A sequence whose first tokens were not shown is left alone.
    void add(uint64_t sequence, uint32_t layer, int64_t position, int64_t n_cached, std::span<const float> keys,
             std::span<const float> values, size_t width);
    // [kv_head][row]: which cached row becomes that row; those that are not named left.
    void rows_moved(uint64_t sequence, uint32_t layer, int64_t n_rows, const std::vector<std::vector<int32_t>>& from);
    void fork(uint64_t from, uint64_t to);
    // Tokens from n_tokens on are forgotten.
    void rewind(uint64_t sequence, int64_t n_tokens, size_t width);
    void close(uint64_t sequence);

    // Null where nothing was shown.
    const ShadowLayer* find(uint64_t sequence, uint32_t layer) const;

private:
    std::map<uint64_t, std::map<uint32_t, ShadowLayer>> sequences_;
};

}  // namespace kvplane
