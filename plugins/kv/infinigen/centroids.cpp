#include "centroids.h"

#include <algorithm>

namespace kvplane::infinigen {

Centroids::Centroids(const Context& context)
    : context_(context), page_means_(*context.core, "kvp.page_means/1"), page_bias_(*context.core, "kvp.page_bias/1") {}

void Centroids::append(const Turn& turn) const {
    update(turn, turn.rows(), turn.n_past(), turn.n_total());
}

void Centroids::refresh(const Turn& turn, const std::vector<int64_t>& pages, int64_t n_rows) const {
    turn.visit_pages(pages, n_rows,
                     [&](const kvp_rows& rows, int64_t begin, int64_t end) { update(turn, rows, begin, end); });
}

kvp_segment Centroids::segment(const Turn& turn) const {
    const kvp_kv_model& model = context_.model;
    const Selection& selection = turn.layer_state().selection;
    const auto n_pages = (static_cast<uint64_t>(selection.n_past) + model.page_tokens - 1) / model.page_tokens;
    uint64_t capacity = 0;
    const kvp_address means = turn.sidecar(Sidecars::means, &capacity);
    if (turn.state().bias == 0) {  // as wide as the means: a segment has one stride for both
        turn.state().bias = turn.scratch(model.n_kv_heads * capacity * sizeof(float));
    }

    auto bias = kvp::make<kvp_page_bias_arguments>();
    bias.index = selection.index;
    bias.index_stride = selection.max_count;
    bias.counts = selection.counts;
    bias.bias = turn.state().bias;
    bias.capacity = capacity;
    bias.n_tokens = selection.n_past;
    bias.skip_begin = context_.settings.sinks;
    bias.skip_end = context_.settings.recent;
    bias.n_kv_heads = model.n_kv_heads;
    bias.page_tokens = model.page_tokens;
    page_bias_.enqueue(turn.call(), {}, &bias);

    auto segment = kvp::make<kvp_segment>();
    segment.form = KVP_SEGMENT_VIRTUAL;
    segment.virtual_rows = means;
    segment.virtual_bias = turn.state().bias;
    segment.virtual_stride = capacity;
    segment.virtual_count = static_cast<uint32_t>(n_pages);
    segment.virtual_type = mean_type(context_.model);
    return segment;
}

void Centroids::update(const Turn& turn, const kvp_rows& rows, int64_t begin, int64_t end) const {
    auto arguments = kvp::make<kvp_page_means_arguments>();
    arguments.rows = &rows;
    arguments.means = turn.sidecar(Sidecars::means, &arguments.capacity);
    arguments.spreads = turn.sidecar(Sidecars::spreads);
    arguments.token_begin = begin;
    arguments.token_end = end;
    arguments.page_tokens = context_.model.page_tokens;
    arguments.type = mean_type(context_.model);
    page_means_.enqueue(turn.call(), {}, &arguments);
}

}  // namespace kvplane::infinigen
