// Many query rows, as in prefill: each block of cached rows is widened to f32 once for all queries.
#include <algorithm>
#include <utility>

#include "attention_tile.h"

namespace kvplane::cpu {

int64_t many_queries_scratch_floats(int64_t n_queries, int64_t head_size) {
    // queries, scores, visible counts, and a block of keys or of values
    return padded_queries(n_queries) * (head_size + kBlockRows + 1) + kBlockRows * head_size;
}

int64_t attend_many_queries(const Kernels& kernels, const Tile& tile, float* scratch, const Partial& partial) {
    const int64_t d = tile.segments->rows().head_size();
    const int64_t n_queries = tile.n_rows * tile.group;
    const int64_t padded = padded_queries(n_queries);
    float* queries = scratch;  // [d][padded]
    float* scores = queries + padded * d;
    float* wide = scores + padded * kBlockRows;
    auto* visible = reinterpret_cast<int32_t*>(wide + kBlockRows * d);

    std::fill_n(queries, padded * d, 0.0f);
    for (int64_t query = 0; query < n_queries; ++query) {
        const float* q = tile.q + query / tile.group * tile.q_stride + query % tile.group * d;
        for (int64_t i = 0; i < d; ++i) queries[i * padded + query] = q[i] * tile.scale;
    }
    clear(partial, n_queries, d);
    std::fill_n(visible, padded, 0);

    RowCursor cursor(*tile.segments, tile.kv_head, tile.first_slot, tile.last_slot,
                     tile.first_position + tile.n_rows - 1);
    RowBlock blocks[2];
    RowBlock* block = &blocks[0];
    RowBlock* following = &blocks[1];
    for (bool more = cursor.next(*block); more; std::swap(block, following)) {
        more = cursor.next(*following);
        const int64_t n = block->n;
        const Rows keys{block->rows, n, 0, following->rows, more ? following->n : 0};
        Rows values = keys;
        values.offset = d * (block->type == RowType::F16 ? 2 : 4);
        count_visible(*block, tile, visible);
        kernels.widen_rows(block->type, keys, d, wide);
        kernels.multiply(wide, d, 1, queries, padded, scores, padded, n, d, padded, false);
        if (block->biased) {
            for (int64_t i = 0; i < n; ++i) {
                for (int64_t q = 0; q < padded; ++q) scores[i * padded + q] += block->bias[i];
            }
        }
        kernels.softmax_columns(scores, padded, visible, n, partial.maxima, partial.sums, partial.out, n_queries, d);
        kernels.widen_rows(block->type, values, d, wide);
        kernels.multiply(scores, 1, padded, wide, d, partial.out, d, n_queries, n, d, true);
    }
    return cursor.missing();
}

}  // namespace kvplane::cpu
