#include "attention_tile.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace kvplane::cpu {
namespace {

// Up to here the rows are widened at each use; beyond, a block is unpacked to f32 once for all queries.
constexpr int64_t kDirectQueries = 8;

// How many rows of the block each query sees: tokens ascend, so it is the first so many.
void count_visible(const RowBlock& block, const Tile& tile, int32_t* visible) {
    for (int64_t row = 0; row < tile.n_rows; ++row) {
        int64_t n = block.n;
        if (block.causal && block.tokens[n - 1] > tile.first_position + row) {
            n = std::upper_bound(block.tokens, block.tokens + n, tile.first_position + row) - block.tokens;
        }
        std::fill_n(visible + row * tile.group, tile.group, static_cast<int32_t>(n));
    }
}

}  // namespace

int64_t tile_scratch_floats(int64_t n_queries, int64_t head_size) {
    // queries, scores, visible counts; a block of keys and of values
    return n_queries * head_size + n_queries * kBlockRows + (n_queries + 15) / 16 * 16 + 2 * kBlockRows * head_size;
}

int64_t attend(const Kernels& kernels, const Tile& tile, float* scratch, const Partial& partial) {
    const int64_t d = tile.segments->rows().head_size();
    const int64_t n_queries = tile.n_rows * tile.group;
    float* queries = scratch;
    float* scores = queries + n_queries * d;
    float* keys = scores + n_queries * kBlockRows;
    float* values = keys + kBlockRows * d;
    auto* visible = reinterpret_cast<int32_t*>(values + kBlockRows * d);

    for (int64_t row = 0; row < tile.n_rows; ++row) {
        for (int64_t i = 0; i < tile.group * d; ++i)
            queries[row * tile.group * d + i] = tile.q[row * tile.q_stride + i] * tile.scale;
    }
    std::fill_n(partial.out, n_queries * d, 0.0f);
    std::fill_n(partial.maxima, n_queries, -std::numeric_limits<float>::infinity());
    std::fill_n(partial.sums, n_queries, 0.0f);

    RowCursor cursor(*tile.segments, tile.kv_head, tile.first_slot, tile.last_slot,
                     tile.first_position + tile.n_rows - 1);
    RowBlock blocks[2];
    RowBlock* block = &blocks[0];
    RowBlock* following = &blocks[1];
    for (bool more = cursor.next(*block); more; std::swap(block, following)) {
        more = cursor.next(*following);
        const int64_t padded = (block->n + 15) / 16 * 16;
        const bool direct = n_queries <= kDirectQueries;
        if (direct) {
            const Rows keys_of_block{block->rows, block->n, 0, following->rows, more ? following->n : 0};
            kernels.score_rows(block->type, queries, d, n_queries, keys_of_block, d, scores, kBlockRows);
        } else {
            kernels.unpack_rows(block->type, block->rows, block->n, d, keys, kBlockRows, values);
            kernels.multiply(queries, d, keys, kBlockRows, scores, kBlockRows, n_queries, d, padded, false);
        }
        if (block->biased) {
            for (int64_t q = 0; q < n_queries; ++q) {
                for (int64_t i = 0; i < block->n; ++i) scores[q * kBlockRows + i] += block->bias[i];
            }
        }
        count_visible(*block, tile, visible);
        kernels.softmax_block(scores, kBlockRows, n_queries, visible, padded, partial.maxima, partial.sums, partial.out,
                              d, d);
        if (direct) {
            const int64_t value_offset = d * (block->type == RowType::F16 ? 2 : 4);
            const Rows values_of_block{block->rows, block->n, value_offset, following->rows, more ? following->n : 0};
            kernels.accumulate_rows(block->type, scores, kBlockRows, n_queries, values_of_block, d, partial.out, d);
        } else {
            kernels.multiply(scores, kBlockRows, values, d, partial.out, d, n_queries, block->n, d, true);
        }
    }
    return cursor.missing();
}

}  // namespace kvplane::cpu
