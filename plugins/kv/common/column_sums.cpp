#include "common/column_sums.h"

#include <cmath>

namespace kvplane::kv {

ColumnSums::ColumnSums(const kvp_kv_core& core, const kvp_kv_model& model)
    : column_sums_(core, "kvp.column_sums/1"),
      n_heads_(model.n_heads),
      scale_(1.0f / std::sqrt(static_cast<float>(model.head_size))) {}

void ColumnSums::add(const Turn& turn, const QueryRows& queries, const Sums& sums) const {
    auto arguments = kvp::make<kvp_column_sums_arguments>();
    arguments.sums = sums.sums;
    arguments.counts = sums.counts;
    arguments.capacity = sums.capacity;
    arguments.fresh_begin = sums.fresh_begin;
    arguments.row_begin = queries.row_begin;
    arguments.n_rows = queries.n_rows;
    arguments.query_begin = queries.first;
    arguments.n_heads = n_heads_;
    arguments.scale = scale_;
    turn.visit(0, turn.n_total(), [&](const kvp_rows& rows, int64_t begin, int64_t end) {
        arguments.rows = &rows;
        arguments.token_begin = begin;
        arguments.token_end = end;
        column_sums_.enqueue(turn.call(), {queries.query, queries.lse}, &arguments);
    });
}

}  // namespace kvplane::kv
