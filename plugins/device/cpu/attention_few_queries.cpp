// Few query rows, as in decode: the cached rows are read in place, each once for all queries.
#include <algorithm>
#include <numeric>
#include <utility>

#include "attention_tile.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t groups_of(int64_t head_size) {
    return (head_size + kGroupColumns - 1) / kGroupColumns;
}

// Queries as integers are kept for each group of columns where the rows are in groups, else once for the whole width.
struct FewQueries {
    FewQueries(const Tile& tile, float* scratch)
        : n(tile.n_rows * tile.group),
          d(tile.segments->rows().head_size()),
          padded(padded_queries(n)),
          queries(scratch),
          scores(queries + padded * d),
          sums(scores + padded * kBlockRows),
          visible(reinterpret_cast<int32_t*>(sums + padded * 16)),
          query_sums(sums + padded * (16 + 1)),
          quantised{reinterpret_cast<int8_t*>(query_sums + padded * groups_of(d) * (1 + 1 + 32)),
                    reinterpret_cast<int32_t*>(query_sums + padded * groups_of(d) * (1 + 1)),
                    query_sums + padded * groups_of(d)},
          widened(scratch + narrow_floats(n, d)) {}
    static int64_t floats(int64_t n_queries, int64_t head_size) {
        return narrow_floats(n_queries, head_size) + WidenedRows::floats(head_size);
    }
    static int64_t narrow_floats(int64_t n_queries, int64_t head_size) {
        return padded_queries(n_queries) * (head_size + kBlockRows + 16 + 1 + groups_of(head_size) * (1 + 1 + 32) +
                                            quantised_query_bytes(head_size) / 4);
    }

    // Of columns [64 * group, …).
    int64_t group_width(int64_t group) const { return std::min(kGroupColumns, d - group * kGroupColumns); }
    QuantisedQueries of_group(int64_t group) const {
        return {quantised.digits + group * padded * quantised_query_bytes(kGroupColumns),
                quantised.starts + group * padded * 32, quantised.scales + group * padded};
    }

    int64_t n;
    int64_t d;
    int64_t padded;
    float* queries;     // [n][d]
    float* scores;      // [n][kBlockRows]
    float* sums;        // [n][16]
    int32_t* visible;   // [n]
    float* query_sums;  // [group][padded]
    QuantisedQueries quantised;
    WidenedRows widened;
};

void quantise_groups(const Kernels& kernels, const FewQueries& few) {
    for (int64_t group = 0; group < groups_of(few.d); ++group) {
        const float* columns = few.queries + group * kGroupColumns;
        const int64_t width = few.group_width(group);
        kernels.quantise_queries(columns, few.d, few.n, width, few.of_group(group));
        for (int64_t q = 0; q < few.n; ++q) {
            const float* query = columns + q * few.d;
            few.query_sums[group * few.padded + q] = std::accumulate(query, query + width, 0.0f);
        }
    }
}

// The columns of one group of K or V rows.
Rows group_columns(Rows rows, const RowLayout& layout, int64_t group) {
    rows.offset += group * layout.group_bytes();
    rows.scale += group * 4;
    if (group > 0) rows.next = nullptr;  // once is enough
    return rows;
}

}  // namespace

int64_t few_queries_scratch_floats(int64_t n_queries, int64_t head_size) {
    return FewQueries::floats(std::min(n_queries, kFewQueries), head_size);
}

int64_t attend_few_queries(const Kernels& kernels, const Tile& tile, float* scratch, const Partial& partial) {
    FewQueries few(tile, scratch);
    const int64_t d = few.d;
    for (int64_t query = 0; query < few.n; ++query) {
        const float* q = tile.q + query / tile.group * tile.q_stride + query % tile.group * d;
        for (int64_t i = 0; i < d; ++i) few.queries[query * d + i] = q[i] * tile.scale;
    }
    const RowType cached = tile.segments->rows().type();
    if (cached == RowType::I8) kernels.quantise_queries(few.queries, d, few.n, d, few.quantised);
    const bool in_groups = tile.segments->rows().layout().in_groups() && !tile.exact_f32;
    if (in_groups) quantise_groups(kernels, few);
    clear(partial, few.n, d);
    std::fill_n(few.sums, few.padded * 16, 0.0f);

    RowCursor cursor(*tile.segments, tile.kv_head, tile.first_slot, tile.last_slot,
                     tile.first_position + tile.n_rows - 1);
    RowBlock blocks[2];
    RowBlock* block = &blocks[0];
    RowBlock* following = &blocks[1];
    for (bool more = cursor.next(*block); more; std::swap(block, following)) {
        more = cursor.next(*following);
        const RowType type = block->layout.type;
        const Rows keys = block->keys(more ? following : nullptr);
        const Rows values = block->values(more ? following : nullptr);
        count_visible(*block, tile, few.visible);
        if (type == RowType::I8) {
            kernels.score_int8_rows(few.quantised, few.n, keys, d, few.scores, kBlockRows);
        } else if (in_groups && block->layout.in_groups()) {
            for (int64_t group = 0; group < groups_of(d); ++group) {
                kernels.score_group_rows(type, few.of_group(group), few.query_sums + group * few.padded, few.n,
                                         group_columns(keys, block->layout, group), few.group_width(group), group > 0,
                                         few.scores, kBlockRows);
            }
        } else if (!block->layout.is_multiplied()) {
            kernels.score_rows(RowType::F32, few.queries, d, few.n, few.widened.part(kernels, type, keys, d), d,
                               few.scores, kBlockRows);
        } else {
            kernels.score_rows(type, few.queries, d, few.n, keys, d, few.scores, kBlockRows);
        }
        if (block->biased) {
            for (int64_t q = 0; q < few.n; ++q) {
                for (int64_t i = 0; i < block->n; ++i) few.scores[q * kBlockRows + i] += block->bias[i];
            }
        }
        kernels.softmax_rows(few.scores, kBlockRows, few.n, few.visible, (block->n + 15) / 16 * 16, partial.maxima,
                             few.sums, partial.out, d);
        if (type == RowType::I8) {
            kernels.accumulate_int8_rows(few.scores, kBlockRows, few.n, values, d, partial.out, d);
        } else if (in_groups && block->layout.in_groups()) {
            for (int64_t group = 0; group < groups_of(d); ++group) {
                kernels.accumulate_group_rows(type, few.scores, kBlockRows, few.n,
                                              group_columns(values, block->layout, group), few.group_width(group),
                                              partial.out + group * kGroupColumns, d);
            }
        } else if (!block->layout.is_multiplied()) {
            kernels.accumulate_rows(RowType::F32, few.scores, kBlockRows, few.n,
                                    few.widened.part(kernels, type, values, d), d, partial.out, d);
        } else {
            kernels.accumulate_rows(type, few.scores, kBlockRows, few.n, values, d, partial.out, d);
        }
    }
    for (int64_t q = 0; q < few.n; ++q) {
        partial.sums[q] = std::accumulate(few.sums + q * 16, few.sums + (q + 1) * 16, 0.0f);
    }
    return cursor.missing();
}

}  // namespace kvplane::cpu
