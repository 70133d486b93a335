// SnapKV's way: the prompt is read in full; when a layer is done with it, the last queries of the prompt vote for rows, votes
// are smoothed over neighbours, and of each KV head the best rows and the newest ones stay. How many is said by layer.
#pragma once

#include <functional>
#include <string>

#include "common/observation_window.h"
#include "common/selected_rows.h"

namespace kvplane::kv {

// Rows of a layer that stay: so many by votes, and the newest.
struct Quota {
    int64_t chosen;
    int64_t newest;
    int64_t total() const { return chosen + newest; }

    // Of a budget, the rows of the window that votes are the newest, but no more than half.
    static Quota of(int64_t budget, int64_t window);
};

struct PromptEvictionSettings {
    std::function<Quota(uint32_t layer, int64_t n_seen)> quota;
    int64_t window;    // queries that vote
    uint32_t kernel;   // places that a vote is smoothed over
    uint32_t pooling;  // KVP_POOL_*
    int64_t again;     // acts once more each time so many rows are over; 0: never
    std::string summary;
};

class PromptEviction {
public:
    struct State {
        ObservationWindow::Span queries;
    };

    PromptEviction(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model,
                   PromptEvictionSettings settings);
    PromptEviction(const PromptEviction&) = delete;
    PromptEviction& operator=(const PromptEviction&) = delete;

    const kvp_kv_needs* needs() const { return &needs_; }
    State open(int64_t, int64_t) const { return {}; }
    void rewind(State& state, int64_t n_cached) const { ObservationWindow::rewind(state.queries, n_cached); }

    void attn_plan(kvp_kv_call* call, const kvp_kv_step& step) const;
    void attn_done(kvp_kv_call* call, const kvp_kv_step& step) const;
    void prefill_end(kvp_kv_call* call, const kvp_kv_step& step, uint32_t sequence) const;
    void step_end(kvp_kv_call* call, const kvp_kv_step& step) const;

private:
    void evict(const Turn& turn) const;

    const kvp::Host& host_;
    const kvp_kv_core& core_;
    const kvp_kv_model model_;
    const PromptEvictionSettings settings_;
    const ObservationWindow window_;
    const DeviceOp pool_scores_;
    const RowSelection selection_;
    kvp_kv_needs needs_;
};

}  // namespace kvplane::kv
