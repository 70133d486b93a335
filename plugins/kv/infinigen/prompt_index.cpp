#include "prompt_index.h"

namespace kvplane::infinigen {

PromptIndex::PromptIndex(const Context& context)
    : context_(context),
      column_statistics_(*context.core, "kvp.column_statistics/1"),
      partial_index_(*context.core, "kvp.partial_index/1"),
      partial_keys_(*context.core, "kvp.partial_keys/1") {}

void PromptIndex::accumulate(const Turn& turn) const {
    auto arguments = kvp::make<kvp_column_statistics_arguments>();
    arguments.statistics = turn.sidecar(Sidecars::statistics);
    arguments.skew = context_.skew[turn.layer()];
    arguments.row_begin = turn.sequence().row_begin;
    arguments.n_rows = turn.sequence().n_rows;
    arguments.n_heads = context_.model.n_heads;
    arguments.n_kv_heads = context_.model.n_kv_heads;
    arguments.head_size = context_.model.head_size;
    column_statistics_.enqueue(turn.call(), {turn.evidence().query, turn.evidence().key}, &arguments);
    turn.layer_state().statistic_rows += turn.sequence().n_rows;
    turn.layer_state().prompt_end = turn.n_total();
}

void PromptIndex::build(const Turn& turn) const {
    auto arguments = kvp::make<kvp_partial_index_arguments>();
    arguments.statistics = turn.sidecar(Sidecars::statistics);
    arguments.skew = context_.skew[turn.layer()];
    arguments.projection = turn.sidecar(Sidecars::projection);
    arguments.index = turn.sidecar(Sidecars::index);
    arguments.mean = turn.sidecar(Sidecars::mean);
    arguments.n_rows = turn.layer_state().statistic_rows;
    arguments.mode = context_.settings.columns;
    arguments.n_chosen = context_.settings.chosen_columns(context_.model.head_size);
    arguments.n_columns = context_.settings.stored_columns(context_.model.head_size);
    arguments.n_heads = context_.model.n_heads;
    arguments.n_kv_heads = context_.model.n_kv_heads;
    arguments.head_size = context_.model.head_size;
    partial_index_.enqueue(turn.call(), {}, &arguments);

    auto keys = keys_arguments(turn);
    if (context_.settings.key_type == KVP_TYPE_I4) {  // its scales are those of a whole column, so they come first
        keys.find_scales = 1;
        turn.visit(0, turn.n_total(),
                   [&](const kvp_rows& rows, int64_t begin, int64_t end) { store(turn, keys, rows, begin, end); });
        keys.find_scales = 0;
    }
    turn.visit(0, turn.n_total(),
               [&](const kvp_rows& rows, int64_t begin, int64_t end) { store(turn, keys, rows, begin, end); });
    turn.layer_state().indexed = true;
}

void PromptIndex::append(const Turn& turn) const {
    store(turn, keys_arguments(turn), turn.rows(), turn.n_past(), turn.n_total());
}

void PromptIndex::refresh(const Turn& turn, const std::vector<int64_t>& pages, int64_t n_rows) const {
    const auto keys = keys_arguments(turn);
    turn.visit_pages(pages, n_rows,
                     [&](const kvp_rows& rows, int64_t begin, int64_t end) { store(turn, keys, rows, begin, end); });
}

kvp_partial_keys_arguments PromptIndex::keys_arguments(const Turn& turn) const {
    auto arguments = kvp::make<kvp_partial_keys_arguments>();
    if (context_.skew[turn.layer()] != 0) arguments.projection = turn.sidecar(Sidecars::projection);
    arguments.columns = turn.sidecar(Sidecars::index);
    arguments.mean = turn.sidecar(Sidecars::mean);
    arguments.scales = turn.sidecar(Sidecars::scales);
    arguments.keys = turn.keys(&arguments.capacity);
    arguments.type = context_.settings.key_type;
    arguments.n_columns = context_.settings.stored_columns(context_.model.head_size);
    return arguments;
}

void PromptIndex::store(const Turn& turn, kvp_partial_keys_arguments arguments, const kvp_rows& rows, int64_t begin,
                        int64_t end) const {
    arguments.rows = &rows;
    arguments.token_begin = begin;
    arguments.token_end = end;
    partial_keys_.enqueue(turn.call(), {}, &arguments);
}

}  // namespace kvplane::infinigen
