// Few query rows, as in decode: the cached rows are read in place, each once for all queries.
#include <algorithm>
#include <utility>

#include "attention_tile.h"

namespace kvplane::cpu {

int64_t few_queries_scratch_floats(int64_t n_queries, int64_t head_size) {
    const int64_t n = std::min(n_queries, kFewQueries);
    return padded_queries(n) * (head_size + kBlockRows + 1);  // queries, scores, visible counts
}

int64_t attend_few_queries(const Kernels& kernels, const Tile& tile, float* scratch, const Partial& partial) {
    const int64_t d = tile.segments->rows().head_size();
    const int64_t n_queries = tile.n_rows * tile.group;
    const int64_t padded = padded_queries(n_queries);
    float* queries = scratch;  // [n_queries][d]
    float* scores = queries + padded * d;
    auto* visible = reinterpret_cast<int32_t*>(scores + padded * kBlockRows);

    for (int64_t query = 0; query < n_queries; ++query) {
        const float* q = tile.q + query / tile.group * tile.q_stride + query % tile.group * d;
        for (int64_t i = 0; i < d; ++i) queries[query * d + i] = q[i] * tile.scale;
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
        kernels.score_rows(block->type, queries, d, n_queries, keys, d, scores, kBlockRows);
        if (block->biased) {
            for (int64_t q = 0; q < n_queries; ++q) {
                for (int64_t i = 0; i < n; ++i) scores[q * kBlockRows + i] += block->bias[i];
            }
        }
        kernels.softmax_rows(scores, kBlockRows, n_queries, visible, (n + 15) / 16 * 16, partial.maxima, partial.sums,
                             partial.out, d);
        kernels.accumulate_rows(block->type, scores, kBlockRows, n_queries, values, d, partial.out, d);
    }
    return cursor.missing();
}

}  // namespace kvplane::cpu
