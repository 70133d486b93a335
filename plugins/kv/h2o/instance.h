// H2O for one model: each row's attention is summed up as queries come, and of each KV head the heaviest rows and the newest
// stay.
#pragma once

#include <string>
#include <vector>

#include "common/column_sums.h"
#include "common/selected_rows.h"
#include "settings.h"

namespace kvplane::h2o {

class Instance {
public:
    struct State {
        int64_t n_prompt = 0;
    };

    Instance(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model);
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;

    const kvp_kv_needs* needs() const { return &needs_; }
    State open(int64_t, int64_t) const { return {}; }
    // The sums hold what queries gave that would be gone.
    void rewind(State&, int64_t) const {
        throw kvp::Failure(KVP_UNSUPPORTED, "the sums of h2o cannot be rewound: fork the text where it goes on");
    }

    void attn_plan(kvp_kv_call* call, const kvp_kv_step& step) const;
    void attn_done(kvp_kv_call* call, const kvp_kv_step& step) const;
    void prefill_end(kvp_kv_call* call, const kvp_kv_step& step, uint32_t sequence) const;

private:
    void sum(const kv::Turn& turn) const;
    void evict(const kv::Turn& turn, const Quota& quota) const;
    kv::Sums sums(const kv::Turn& turn) const;

    const kvp::Host& host_;
    const kvp_kv_core& core_;
    const kvp_kv_model model_;
    const Settings settings_;
    const kv::ColumnSums column_sums_;
    const kv::RowSelection selection_;
    kv::DeviceOp divide_;  // kvp.pool_scores over one place, where sums are normalised
    std::vector<kvp_sidecar> sidecars_;
    std::vector<const kvp_sidecar*> pointers_;
    std::string summary_;
    kvp_kv_needs needs_;
};

}  // namespace kvplane::h2o
