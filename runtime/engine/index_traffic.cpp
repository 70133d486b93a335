#include "engine/index_traffic.h"

#include <algorithm>

#include "kvplane/ops.h"

namespace kvplane {

namespace {

double bits(uint32_t type) {
    switch (type) {
        case KVP_TYPE_F32: return 32;
        case KVP_TYPE_F16: return 16;
        case KVP_TYPE_I8: return 8;
        default: return 4;
    }
}

// Rows whose partial keys are scored, all KV heads together.
double scored_rows(const kvp_partial_scores_arguments& given, bool host_reads) {
    const auto all = static_cast<double>(given.n_tokens);
    if (given.pages == 0 || given.page_counts == 0 || !host_reads) return all * given.n_kv_heads;
    const auto* counts = reinterpret_cast<const int32_t*>(given.page_counts);
    double rows = 0;
    for (uint32_t head = 0; head < given.n_kv_heads; ++head) {
        rows += std::min(all, static_cast<double>(counts[head]) * given.page_tokens);
    }
    return rows;
}

}  // namespace

double index_bytes(std::string_view op, const void* arguments, bool host_reads) {
    if (op == "kvp.partial_scores/1") {
        const auto& given = *static_cast<const kvp_partial_scores_arguments*>(arguments);
        const double scale = given.type == KVP_TYPE_I8 ? 4 : 0;  // int4 scales are a column's, not a row's
        return scored_rows(given, host_reads) * (given.n_columns * bits(given.type) / 8 + scale);
    }
    if (op == "kvp.select_pages/1") {
        const auto& given = *static_cast<const kvp_select_pages_arguments*>(arguments);
        const auto pages = static_cast<double>((given.n_tokens + given.page_tokens - 1) / given.page_tokens);
        return pages * given.n_kv_heads * 2 * given.head_size * bits(given.type) / 8;  // mean and spread of K
    }
    if (op == "kvp.page_bound_scores/1") {
        const auto& given = *static_cast<const kvp_page_bound_scores_arguments*>(arguments);
        return static_cast<double>(given.n_pages) * given.n_kv_heads * 2 * given.head_size * 4;
    }
    if (op == "kvp.column_sums/1") {
        // K once more, half of the rows' bytes.
        const auto& given = *static_cast<const kvp_column_sums_arguments*>(arguments);
        const auto rows = static_cast<double>(given.token_end - given.token_begin) * given.rows->n_kv_heads;
        return rows * static_cast<double>(kvp_row_bytes(given.rows->type, given.rows->head_size)) / 2;
    }
    if (op == "kvp.turned_rows/1") {
        const auto& given = *static_cast<const kvp_turned_rows_arguments*>(arguments);
        const auto rows = static_cast<double>(given.token_end - given.token_begin) * given.rows->n_kv_heads;
        return rows * static_cast<double>(kvp_row_bytes(given.rows->type, given.rows->head_size));
    }
    return 0;
}

}  // namespace kvplane
