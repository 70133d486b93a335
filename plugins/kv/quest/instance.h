// Quest for one model: bounds are kept as rows are written; a token reads the pages whose bound promises most, and the page
// that it stands in.
#pragma once

#include <string>
#include <vector>

#include "common/selected_rows.h"
#include "page_bounds.h"
#include "settings.h"

namespace kvplane::quest {

class Instance {
public:
    struct State {
        std::vector<bool> stale;  // a layer: the page of the next row has bounds of rows that are gone
    };

    Instance(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model);
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    const kvp_kv_needs* needs() const { return &needs_; }
    State open(int64_t prompt_tokens, int64_t max_tokens) const;
    void rewind(State& state, int64_t n_cached) const;

    void on_write(kvp_kv_call* call, const kvp_kv_step& step) const;
    void attn_plan(kvp_kv_call* call, const kvp_kv_step& step) const;

private:
    void plan(const kv::Turn& turn) const;

    const kvp::Host& host_;
    const kvp_kv_core& core_;
    const kvp_kv_model model_;
    const Settings settings_;
    const PageBounds bounds_;
    const kv::RowSelection selection_;
    const kvp_sidecar* sidecars_[1];
    std::string summary_;
    kvp_kv_needs needs_;
};

}  // namespace kvplane::quest
