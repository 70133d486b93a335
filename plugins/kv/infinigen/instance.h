// One InfiniGen for one model: what each hook does, in terms of the parts.
//
// Prompt: on_write adds up column sums and page means; prefill_end picks columns and makes partial keys.
// Token:  layer_begin or ffn_begin of layer l - 1 guesses l's query, selects rows and starts to fetch them; on_write
// adds
//         the new row's partial key; attn_plan of l hands out sinks, the selected rows, the recent ones and the
//         centroids.
#pragma once

#include <memory>
#include <string>

#include "calibration.h"
#include "centroids.h"
#include "context.h"
#include "prompt_index.h"
#include "selection.h"
#include "speculation.h"

namespace kvplane::infinigen {

class Instance {
public:
    // Throws kvp::Failure when the settings do not fit the model or the device lacks an op.
    Instance(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model);

    const kvp_kv_needs* needs() const { return &needs_; }
    void set_weights(uint32_t layer, const kvp_kv_weights& weights) { speculation_.set_weights(layer, weights); }

    void calibrate(uint32_t layer, const float* query, int64_t n_rows);
    std::vector<std::byte> save_aux() const;
    void load_aux(std::span<const std::byte> bytes);

    std::unique_ptr<kvp_kv_state> open() const;
    void rewind(kvp_kv_state& state, int64_t n_cached) const;

    void step_begin(kvp_kv_call* call, const kvp_kv_step& step);
    void layer_begin(kvp_kv_call* call, const kvp_kv_step& step);
    void on_write(kvp_kv_call* call, const kvp_kv_step& step);
    void attn_plan(kvp_kv_call* call, const kvp_kv_step& step);
    void ffn_begin(kvp_kv_call* call, const kvp_kv_step& step);
    void prefill_end(kvp_kv_call* call, const kvp_kv_step& step, uint32_t sequence);

    void evict(const kvp_kv_step& step, const kvp_kv_eviction& eviction) const;
    void rows_replaced(kvp_kv_call* call, const kvp_kv_step& step, const kvp_kv_eviction& eviction);
    void selected(kvp_kv_state& state, uint32_t layer, const int32_t* index, const int32_t* counts,
                  uint64_t stride) const;

private:
    Turn turn(kvp_kv_call* call, const kvp_kv_step& step, uint32_t sequence, uint32_t layer) const {
        return Turn(context_, sidecars_, call, step, sequence, layer);
    }
    void speculate(kvp_kv_call* call, const kvp_kv_step& step, const kvp_tensor& input);
    void refresh_stale_pages(kvp_kv_call* call, const kvp_kv_step& step, uint32_t sequence);
    void declare_needs();
    uint64_t scratch_bytes() const;

    Context context_;
    Sidecars sidecars_;
    PromptIndex prompt_index_;
    RowSelection selection_;
    Speculation speculation_;
    std::optional<Centroids> centroids_;
    std::optional<Calibration> calibration_;
    bool calibrated_ = false;  // a calibration was loaded
    std::string summary_;
    kvp_kv_needs needs_;
};

}  // namespace kvplane::infinigen

struct kvp_kv_instance final : kvplane::infinigen::Instance {
    using Instance::Instance;
};
