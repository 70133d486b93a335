#include "common/selected_rows.h"

namespace kvplane::kv {

RowSelection::RowSelection(const kvp_kv_core& core, uint32_t n_kv_heads)
    : select_rows_(core, "kvp.select_rows/1"), n_kv_heads_(n_kv_heads) {}

SelectedRows RowSelection::select(const Turn& turn, const ScoredRows& scored) const {
    const uint64_t index_bytes = uint64_t{n_kv_heads_} * scored.count * sizeof(int32_t);
    SelectedRows selected{turn.scratch(index_bytes + n_kv_heads_ * sizeof(int32_t)), 0, scored.count};
    selected.counts = selected.index + index_bytes;
    auto arguments = kvp::make<kvp_select_rows_arguments>();
    arguments.scores = scored.scores;
    arguments.scores_stride = scored.stride;
    arguments.index = selected.index;
    arguments.index_stride = scored.count;
    arguments.counts = selected.counts;
    arguments.n_tokens = scored.n;
    arguments.skip_begin = scored.skip_begin;
    arguments.skip_end = scored.skip_end;
    arguments.n_kv_heads = n_kv_heads_;
    arguments.min_count = scored.count;  // as many as there is room for
    arguments.max_count = scored.count;
    arguments.max_share = 1;
    select_rows_.enqueue(turn.call(), {}, &arguments);
    return selected;
}

kvp_segment row_list(const SelectedRows& selected) {
    auto segment = kvp::make<kvp_segment>();
    segment.form = KVP_SEGMENT_ROW_LIST;
    segment.index = selected.index;
    segment.count = selected.counts;
    segment.index_stride = selected.count;
    segment.max_count = selected.count;
    return segment;
}

kvp_segment page_list(const SelectedRows& selected, uint32_t page_tokens) {
    kvp_segment segment = row_list(selected);
    segment.form = KVP_SEGMENT_PAGE_LIST;
    segment.page_tokens = page_tokens;
    return segment;
}

}  // namespace kvplane::kv
