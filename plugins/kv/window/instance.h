// The window for one model: a token sees the sinks and the newest tokens, and what no token will see again leaves memory, a
// page at a time.
#pragma once

#include <string>

#include "settings.h"
#include "sinks.h"

namespace kvplane::window {

class Instance {
public:
    struct State {
        int64_t dropped = 0;  // tokens that have left, whole pages, those behind the pages of the sinks
    };

    Instance(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model);
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    const kvp_kv_needs* needs() const { return &needs_; }
    State open(int64_t, int64_t) const { return {}; }
    // What has left stays away: the core does not rewind so far.
    void rewind(State&, int64_t) const {}

    void step_begin(kvp_kv_call* call, const kvp_kv_step& step) const;
    void attn_plan(kvp_kv_call* call, const kvp_kv_step& step) const;

private:
    bool reads_all(const kvp_kv_sequence& sequence) const;
    void drop(kvp_kv_call* call, const kvp_kv_sequence& sequence, uint32_t number) const;
    void plan(const kv::Turn& turn) const;

    const kvp::Host& host_;
    const kvp_kv_core& core_;
    const kvp_kv_model model_;
    const Settings settings_;
    const TurnedSinks sinks_;
    std::string summary_;
    kvp_kv_needs needs_;
};

}  // namespace kvplane::window
