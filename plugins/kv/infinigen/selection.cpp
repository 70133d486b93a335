#include "selection.h"

#include <algorithm>
#include <cmath>

namespace kvplane::infinigen {

RowSelection::RowSelection(const Context& context)
    : context_(context),
      partial_scores_(*context.core, "kvp.partial_scores/1"),
      select_rows_(*context.core, "kvp.select_rows/1") {
    const bool whole_tiles = context.model.page_tokens % Sidecars::tile_rows == 0;
    if (context.settings.chooses_pages() && whole_tiles) select_pages_ = DeviceOp(*context.core, "kvp.select_pages/1");
    if (context.settings.pool.masks) {
        constexpr float published = -10000;  // what the artifact's evaluator sets
        kvp::check(context.core->constant(context.core->object, &published, sizeof published, &masked_score_));
    }
}

RowSelection::Pages RowSelection::choose_pages(const Turn& turn, const kvp_tensor* query, int64_t row) const {
    const kvp_kv_model& model = context_.model;
    const int64_t n_pages = (turn.n_past() + model.page_tokens - 1) / model.page_tokens;
    Pages pages{context_.settings.searched_pages(n_pages), 0, 0};
    if (!select_pages_ || pages.n == n_pages) return {};
    const uint64_t list_bytes = uint64_t{model.n_kv_heads} * static_cast<uint64_t>(pages.n) * sizeof(int32_t);
    if (turn.state().pages == 0) {
        turn.state().pages = turn.scratch(list_bytes + model.n_kv_heads * sizeof(int32_t));
    }
    pages.list = turn.state().pages;
    pages.counts = pages.list + list_bytes;

    auto arguments = kvp::make<kvp_select_pages_arguments>();
    arguments.means = turn.sidecar(Sidecars::means, &arguments.capacity);
    arguments.spreads = turn.sidecar(Sidecars::spreads);
    arguments.pages = pages.list;
    arguments.page_counts = pages.counts;
    arguments.pages_stride = static_cast<uint64_t>(pages.n);
    arguments.row = row;
    arguments.n_tokens = turn.n_past();
    arguments.n_heads = model.n_heads;
    arguments.n_kv_heads = model.n_kv_heads;
    arguments.head_size = model.head_size;
    arguments.page_tokens = model.page_tokens;
    arguments.count = static_cast<uint32_t>(pages.n);
    arguments.type = mean_type(context_.model);
    select_pages_.enqueue(turn.call(), {query}, &arguments);
    return pages;
}

void RowSelection::select(const Turn& turn, const kvp_tensor* query, int64_t row) const {
    const kvp_kv_model& model = context_.model;
    const Settings& settings = context_.settings;
    const int64_t n_past = turn.n_past();
    const uint64_t n_heads = model.n_kv_heads;
    if (turn.state().scores == 0) {
        turn.state().scores = turn.scratch(n_heads * static_cast<uint64_t>(n_past) * sizeof(float));
    }

    const Pages pages = choose_pages(turn, query, row);

    auto scores = kvp::make<kvp_partial_scores_arguments>();
    if (context_.skew[turn.layer()] != 0) scores.projection = turn.sidecar(Sidecars::projection);
    scores.columns = turn.sidecar(Sidecars::index);
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
    scores.group_score = settings.group_score;
    scores.scale = 1.0f / std::sqrt(static_cast<float>(model.head_size));
    scores.page_tokens = model.page_tokens;
    scores.pages = pages.list;
    scores.page_counts = pages.counts;
    scores.pages_stride = static_cast<uint64_t>(pages.n);
    partial_scores_.enqueue(turn.call(), {query}, &scores);
    mask(turn);

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
    rows.flags |= settings.counts;
    rows.min_count = static_cast<uint32_t>(settings.floor_count(n_past));
    rows.max_count = selection.max_count;
    rows.alpha = static_cast<float>(settings.alpha);
    const bool said = settings.said_count(n_past) > 0;  // then floor and cap are that number
    rows.max_share = said ? 1.0f : static_cast<float>(settings.cap);
    rows.fixed_share = said ? 0.0f : static_cast<float>(settings.fixed_share);
    rows.unit_tokens = static_cast<uint32_t>(settings.unit_tokens);
    rows.page_tokens = scores.page_tokens;
    rows.pages = scores.pages;
    rows.page_counts = scores.page_counts;
    rows.pages_stride = scores.pages_stride;
    select_rows_.enqueue(turn.call(), {}, &rows);
    selection.valid = true;
}

void RowSelection::mask(const Turn& turn) const {
    const auto& published = turn.layer_state().published;
    if (!published) return;
    const auto n_past = static_cast<uint64_t>(turn.n_past());
    std::vector<kvp_copy_region> regions;
    for (uint32_t head = 0; head < context_.model.n_kv_heads; head++) {
        for (const int32_t row : published->masked(head)) {
            const uint64_t score = head * n_past + static_cast<uint64_t>(row);
            regions.push_back({masked_score_, turn.state().scores + score * sizeof(float), sizeof(float)});
        }
    }
    if (regions.empty()) return;
    kvp::check(context_.core->copy(turn.call(), regions.data(), static_cast<uint32_t>(regions.size())));
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
