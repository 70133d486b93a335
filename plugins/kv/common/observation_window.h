// The last queries of a text, kept from step to step, so that a prompt may come in chunks of any length: a ring in LAYER
// sidecars, the query of token t in slot t mod window, with its log-sum-exp.
#pragma once

#include "common/column_sums.h"

namespace kvplane::kv {

class ObservationWindow {
public:
    // Tokens whose queries are in the ring; part of a sequence's state.
    struct Span {
        int64_t begin = 0;
        int64_t end = 0;
    };

    ObservationWindow(const kvp_kv_core& core, const kvp_kv_model& model, int64_t window);

    const kvp_sidecar* const* sidecars() const { return pointers_; }
    static constexpr uint32_t n_sidecars = 2;
    int64_t window() const { return window_; }

    // In attn_done, in every layer: puts the step's queries into the ring.
    void store(const Turn& turn) const;
    // Which tokens the ring holds after the step; the same in every layer.
    Span after(const Turn& turn, const Span& before) const;
    static void rewind(Span& span, int64_t n_tokens);

    // What the queries of `span` gave to each cached row: f32[G][n_total] in scratch.
    kvp_address votes(const Turn& turn, const Span& span) const;

private:
    const ColumnSums column_sums_;
    int64_t window_;
    uint64_t n_kv_heads_;
    int64_t query_width_;
    int64_t n_heads_;
    kvp_sidecar queries_;
    kvp_sidecar lse_;
    const kvp_sidecar* pointers_[n_sidecars];
};

}  // namespace kvplane::kv
