#include "selection.h"

#include <algorithm>
#include <cmath>

namespace kvplane::infinigen {

RowSelection::RowSelection(const Context& context)
    : context_(context),
      partial_scores_(*context.core, "kvp.partial_scores/1"),
      select_rows_(*context.core, "kvp.select_rows/1") {}

void RowSelection::select(const Turn& turn, const kvp_tensor* query, int64_t row) const {
    const kvp_kv_model& model = context_.model;
    const Settings& settings = context_.settings;
    const int64_t n_past = turn.n_past();
    const uint64_t n_heads = model.n_kv_heads;
    if (turn.state().scores == 0) {
        turn.state().scores = turn.scratch(n_heads * static_cast<uint64_t>(n_past) * sizeof(float));
    }

    auto scores = kvp::make<kvp_partial_scores_arguments>();
    scores.projection = turn.sidecar(Sidecars::projection);
    scores.keys = turn.keys(&scores.capacity);
    scores.scales = turn.sidecar(Sidecars::scales);
    scores.scores = turn.state().scores;
    scores.scores_stride = static_cast<uint64_t>(n_past);
    scores.row = row;
    scores.n_tokens = n_past;
    scores.type = settings.key_type;
    scores.n_columns = settings.stored_columns(model.head_size);
    scores.n_heads = model.n_heads;
    scores.n_kv_heads = model.n_kv_heads;
    scores.head_size = model.head_size;
    scores.best_head = settings.best_head;
    scores.scale = 1.0f / std::sqrt(static_cast<float>(model.head_size));
    partial_scores_.enqueue(turn.call(), {query}, &scores);

    Selection& selection = turn.layer_state().selection;
    const int64_t candidates = n_past - settings.sinks - settings.recent;
    selection.max_count = static_cast<uint32_t>(std::min(candidates, settings.cap_count(n_past)));
    selection.n_past = n_past;
    selection.ticket = 0;
    selection.index = turn.scratch(n_heads * selection.max_count * sizeof(int32_t));
    selection.counts = turn.scratch(n_heads * sizeof(int32_t));

    auto rows = kvp::make<kvp_select_rows_arguments>();
    rows.scores = scores.scores;
    rows.scores_stride = scores.scores_stride;
    rows.index = selection.index;
    rows.index_stride = selection.max_count;
    rows.counts = selection.counts;
    rows.n_tokens = n_past;
    rows.skip_begin = settings.sinks;
    rows.skip_end = settings.recent;
    rows.n_kv_heads = model.n_kv_heads;
    if (settings.strict) rows.flags |= KVP_SELECT_STRICT;
    if (settings.per_head_counts) rows.flags |= KVP_SELECT_PER_HEAD;
    rows.min_count = static_cast<uint32_t>(settings.floor_count(n_past));
    rows.max_count = selection.max_count;
    rows.alpha = static_cast<float>(settings.alpha);
    rows.max_share = static_cast<float>(settings.cap);
    rows.fixed_share = static_cast<float>(settings.fixed_share);
    select_rows_.enqueue(turn.call(), {}, &rows);
    selection.valid = true;
}

void RowSelection::fetch(const Turn& turn) const {
    Selection& selection = turn.layer_state().selection;
    const kvp_segment wanted = segment(selection);
    kvp::check(context_.core->fetch(turn.call(), turn.number(), turn.layer(), &wanted, &selection.ticket));
}

kvp_segment RowSelection::segment(const Selection& selection) {
    auto segment = kvp::make<kvp_segment>();
    segment.form = KVP_SEGMENT_ROW_LIST;
    segment.index = selection.index;
    segment.count = selection.counts;
    segment.index_stride = selection.max_count;
    segment.max_count = selection.max_count;
    segment.ticket = selection.ticket;
    return segment;
}

}  // namespace kvplane::infinigen
