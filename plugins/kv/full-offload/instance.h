// FlexGen's full offload: every full page is in the host tier alone, each layer reads all rows, and while one layer computes the
// pages of the next one come.
#pragma once

#include "common/turn.h"

namespace kvplane::full_offload {

class Instance {
public:
    Instance(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model);
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    const kvp_kv_needs* needs() const { return &needs_; }

    void step_begin(kvp_kv_call* call, const kvp_kv_step& step) const { fetch(call, step, 0); }
    void layer_begin(kvp_kv_call* call, const kvp_kv_step& step) const { fetch(call, step, step.layer + 1); }
    void attn_plan(kvp_kv_call* call, const kvp_kv_step& step) const;

private:
    // Starts to bring the full pages of a layer, for sequences that decode.
    void fetch(kvp_kv_call* call, const kvp_kv_step& step, uint32_t layer) const;
    // The first n_pages pages, as attention reads them.
    kvp_segment pages(int64_t n_pages) const;

    const kvp::Host& host_;
    const kvp_kv_core& core_;
    const kvp_kv_model model_;
    int64_t most_pages_;
    kvp_address index_ = 0;   // i32[G][most_pages]: 0, 1, 2, … for every KV head
    kvp_address counts_ = 0;  // i32[most_pages + 1][G]: n in row n
    kvp_kv_needs needs_;
};

}  // namespace kvplane::full_offload
