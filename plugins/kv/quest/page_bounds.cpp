#include "page_bounds.h"

namespace kvplane::quest {

PageBounds::PageBounds(const kvp_kv_core& core, const kvp_kv_model& model, const Settings& settings)
    : model_(model),
      settings_(settings),
      page_bounds_(core, "kvp.page_bounds/1"),
      page_bound_scores_(core, "kvp.page_bound_scores/1"),
      sidecar_(kvp::make<kvp_sidecar>()) {
    sidecar_.name = kvp::str("bounds");
    sidecar_.scope = KVP_SIDECAR_PAGE;
    sidecar_.first_layer = settings.dense_layers;
    sidecar_.n_bytes = uint64_t{model.page_tokens} / settings.page_tokens * 2 * model.head_size * sizeof(float);
}

kvp_address PageBounds::bounds(const kv::Turn& turn, uint64_t* n_pages) const {
    const kvp_address address = turn.sidecar(0, n_pages);
    *n_pages *= model_.page_tokens / settings_.page_tokens;
    return address;
}

void PageBounds::append(const kv::Turn& turn, bool anew) const {
    auto arguments = kvp::make<kvp_page_bounds_arguments>();
    arguments.bounds = bounds(turn, &arguments.capacity);
    arguments.page_tokens = settings_.page_tokens;
    const auto update = [&](const kvp_rows& rows, int64_t begin, int64_t end) {
        arguments.rows = &rows;
        arguments.token_begin = begin;
        arguments.token_end = end;
        page_bounds_.enqueue(turn.call(), {}, &arguments);
    };
    if (anew) {
        turn.visit(turn.n_past() / settings_.page_tokens * settings_.page_tokens, turn.n_total(), update);
    } else {
        update(turn.rows(), turn.n_past(), turn.n_total());
    }
}

kvp_address PageBounds::scores(const kv::Turn& turn, int64_t n_pages) const {
    auto arguments = kvp::make<kvp_page_bound_scores_arguments>();
    arguments.bounds = bounds(turn, &arguments.capacity);
    arguments.scores_stride = static_cast<uint64_t>(n_pages);
    arguments.scores = turn.scratch(model_.n_kv_heads * arguments.scores_stride * sizeof(float));
    arguments.row = turn.sequence().row_begin;
    arguments.n_pages = n_pages;
    arguments.n_heads = model_.n_heads;
    arguments.n_kv_heads = model_.n_kv_heads;
    arguments.head_size = model_.head_size;
    arguments.mean = settings_.group == Group::mean ? 1 : 0;
    arguments.relative = settings_.group == Group::best ? 1 : 0;
    page_bound_scores_.enqueue(turn.call(), {turn.evidence().query}, &arguments);
    return arguments.scores;
}

}  // namespace kvplane::quest
