#include "common/observation_window.h"

#include <algorithm>

namespace kvplane::kv {

namespace {

kvp_sidecar layer_sidecar(std::string_view name, int64_t n_values) {
    auto sidecar = kvp::make<kvp_sidecar>();
    sidecar.name = kvp::str(name);
    sidecar.scope = KVP_SIDECAR_LAYER;
    sidecar.n_bytes = static_cast<uint64_t>(n_values) * sizeof(float);
    return sidecar;
}

}  // namespace

ObservationWindow::ObservationWindow(const kvp_kv_core& core, const kvp_kv_model& model, int64_t window)
    : column_sums_(core, model),
      window_(window),
      n_kv_heads_(model.n_kv_heads),
      query_width_(int64_t{model.n_heads} * model.head_size),
      n_heads_(model.n_heads),
      queries_(layer_sidecar("queries", window * query_width_)),
      lse_(layer_sidecar("lse", window * n_heads_)),
      pointers_{&queries_, &lse_} {}

ObservationWindow::Span ObservationWindow::after(const Turn& turn, const Span& before) const {
    const int64_t end = turn.n_seen() + turn.sequence().n_rows;
    return {std::max(before.begin, end - window_), end};
}

void ObservationWindow::rewind(Span& span, int64_t n_tokens) {
    span.end = std::min(span.end, n_tokens);
    span.begin = std::min(span.begin, span.end);  // slots before `begin` have later queries
}

void ObservationWindow::store(const Turn& turn) const {
    const kvp_kv_sequence& sequence = turn.sequence();
    const kvp_address queries = turn.sidecar(0), lses = turn.sidecar(1);
    const kvp_address from_query = kvp::address(*turn.evidence().query), from_lse = kvp::address(*turn.evidence().lse);
    const auto bytes = [](int64_t n_values) { return static_cast<uint64_t>(n_values) * sizeof(float); };
    for (int64_t row = std::max<int64_t>(0, sequence.n_rows - window_); row < sequence.n_rows;) {
        const int64_t slot = (turn.n_seen() + row) % window_;
        const int64_t n = std::min(sequence.n_rows - row, window_ - slot);
        const int64_t source = sequence.row_begin + row;
        const kvp_copy_region regions[] = {
            {from_query + bytes(source * query_width_), queries + bytes(slot * query_width_), bytes(n * query_width_)},
            {from_lse + bytes(source * n_heads_), lses + bytes(slot * n_heads_), bytes(n * n_heads_)}};
        turn.copy(regions, 2);
        row += n;
    }
}

kvp_address ObservationWindow::votes(const Turn& turn, const Span& span) const {
    const int64_t n_total = turn.n_total();
    const auto n = static_cast<uint64_t>(n_total);
    Sums sums{turn.scratch(n_kv_heads_ * n * sizeof(float)), 0, n, 0};
    const DLDevice device = turn.evidence().query->view->device;
    const auto queries = kvp::Tensor::f32(turn.sidecar(0), {window_, query_width_}, device);
    const auto lse = kvp::Tensor::f32(turn.sidecar(1), {window_, n_heads_}, device);
    for (int64_t token = span.begin; token < span.end;) {
        const int64_t slot = token % window_;
        const int64_t n_rows = std::min(span.end - token, window_ - slot);
        column_sums_.add(turn, {queries, lse, slot, n_rows, n_total - (span.end - token)}, sums);
        sums.fresh_begin = n_total;
        token += n_rows;
    }
    return sums.sums;
}

}  // namespace kvplane::kv
