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

Rows WidenedRows::part(const Kernels& kernels, RowType type, const Rows& rows, int64_t head_size) {
    kernels.widen_rows(type, rows, head_size, scratch_);
    for (int64_t i = 0; i < rows.n; ++i) rows_[i] = reinterpret_cast<const uint8_t*>(scratch_ + i * head_size);
    return {rows_, rows.n, 0, rows.next, rows.next_bytes};
}

Rows WidenedRows::whole(const Kernels& kernels, const RowBlock& block) {
    const RowLayout& layout = block.layout;
    const int64_t d = layout.head_size;
    for (int64_t i = 0; i < block.n; ++i) {
        float* row = scratch_ + i * 2 * d;
        kernels.widen_rows(layout.type, {block.rows + i, 1, 0, nullptr, 0, layout.key_scale()}, d, row);
        kernels.widen_rows(layout.type, {block.rows + i, 1, layout.value(), nullptr, 0, layout.value_scale()}, d,
                           row + d);
        rows_[i] = reinterpret_cast<const uint8_t*>(row);
    }
    return {rows_, block.n, 0, nullptr};
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
