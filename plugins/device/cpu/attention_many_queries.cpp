// Many query rows, as in prefill: each block of cached rows is unpacked once for all queries.
#include <algorithm>
#include <limits>

#include "attention_tile.h"

namespace kvplane::cpu {

static_assert(kBlockRows == 64);  // what PackedRows and kTileWeights have room for

int64_t many_queries_scratch_floats(int64_t n_queries, int64_t head_size) {
    // queries, result and visible counts; a block of keys and values; the kernel's own
    return padded_queries(n_queries) * (2 * head_size + 1) + 2 * kBlockRows * head_size + kTileWeights + 4 * head_size +
           WidenedRows::floats(head_size);
}

int64_t attend_many_queries(const Kernels& kernels, const Tile& tile, float* scratch, const Partial& partial) {
    const CachedRows& cached = tile.segments->rows();
    const PrefillKernels& run =
        tile.exact_f32 || cached.type() == RowType::F32 ? kernels.prefill_exact : kernels.prefill;
    const int64_t d = cached.head_size();
    const int64_t n_queries = tile.head_queries();
    const int64_t padded = padded_queries(n_queries);
    QueryTile queries{padded, d, scratch, scratch + padded * d, partial.maxima, partial.sums, nullptr, nullptr};
    PackedRows rows{queries.out + padded * d, queries.out + (padded + kBlockRows) * d, nullptr};
    queries.weights = rows.values + kBlockRows * d;
    WidenedRows widened(queries.weights + kTileWeights + 4 * d);
    queries.visible = reinterpret_cast<int32_t*>(queries.weights + kTileWeights + 4 * d + WidenedRows::floats(d));

    run.pack_queries({tile.q, tile.q_stride, tile.group, n_queries, tile.scale}, queries);
    std::fill_n(queries.out, padded * d, 0.0f);
    std::fill_n(queries.references, padded, -std::numeric_limits<float>::infinity());
    std::fill_n(queries.sums, padded, 0.0f);

    RowCursor cursor(*tile.segments, tile.kv_head, tile.first_slot, tile.last_slot,
                     tile.first_position + tile.n_rows - 1);
    RowBlock block;
    while (cursor.next(block)) {
        if (block.layout.is_multiplied()) {
            run.pack_rows(block.layout.type, block.keys(nullptr), d, rows.keys, rows.values);
        } else {
            run.pack_rows(RowType::F32, widened.whole(kernels, block), d, rows.keys, rows.values);
        }
        std::fill_n(block.bias + block.n, block.biased ? kBlockRows - block.n : 0, 0.0f);
        rows.bias = block.biased ? block.bias : nullptr;
        count_visible(block, tile, queries.visible);
        // Padding sees what its neighbours do, so that it does not make a strip a masked one.
        std::fill(queries.visible + n_queries, queries.visible + padded, queries.visible[n_queries - 1]);
        run.attend_rows(queries, rows);
    }
    run.unpack_result(queries, n_queries, partial.out);
    return cursor.missing();
}

}  // namespace kvplane::cpu
