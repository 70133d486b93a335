#include "attention_tile.h"

#include <algorithm>
#include <limits>

namespace kvplane::cpu {

void count_visible(const RowBlock& block, const Tile& tile, int32_t* visible) {
    for (int64_t row = 0; row < tile.n_rows; ++row) {
        int64_t n = block.n;
        if (block.causal && block.tokens[n - 1] > tile.first_position + row) {
            n = std::upper_bound(block.tokens, block.tokens + n, tile.first_position + row) - block.tokens;
        }
        std::fill_n(visible + row * tile.group, tile.group, static_cast<int32_t>(n));
    }
}

void clear(const Partial& partial, int64_t n_queries, int64_t head_size) {
    std::fill_n(partial.out, n_queries * head_size, 0.0f);
    std::fill_n(partial.maxima, padded_queries(n_queries), -std::numeric_limits<float>::infinity());
    std::fill_n(partial.sums, padded_queries(n_queries), 0.0f);
}

int64_t tile_scratch_floats(int64_t n_queries, int64_t head_size) {
    return std::max(few_queries_scratch_floats(n_queries, head_size),
                    many_queries_scratch_floats(n_queries, head_size));
}

int64_t attend(const Kernels& kernels, const Tile& tile, float* scratch, const Partial& partial) {
    const bool few = tile.head_queries() <= kFewQueries;
    return (few ? attend_few_queries : attend_many_queries)(kernels, tile, scratch, partial);
}

}  // namespace kvplane::cpu
