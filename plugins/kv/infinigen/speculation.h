// The query of a layer, guessed one layer ahead: what the layer before has at hand, times this layer's query weight,
// rotated to the row's position. Reason: the residual stream changes little from layer to layer (infinigen.md 1.1).
#pragma once

#include "context.h"
#include "selection.h"

namespace kvplane::infinigen {

class Speculation {
public:
    explicit Speculation(const Context& context);

    // Prepares the ops of a layer; nothing for layers that no query is guessed for.
    void set_weights(uint32_t layer, const kvp_kv_weights& weights);

    // Guesses the queries of `layer` for every sequence that selects there, selects, and starts the fetch.
    // input f32[n, D]: the rows of the step that the settings' source names.
    void run(const Sidecars& sidecars, const RowSelection& selection, kvp_kv_call* call, const kvp_kv_step& step,
             uint32_t layer, const kvp_tensor& input);

    // The scratch of the step before is gone.
    void step_begin() { normed_ = query_ = 0; }

private:
    struct Layer {
        DeviceOp norm;                          // nothing where the source is normed already
        DeviceOp linear;                        // adds to its output where there is a bias
        std::optional<kvp::Tensor> bias_table;  // [1, H*d]; outlives the plan
        DeviceOp bias;                          // kvp.embed of that one row
    };

    // f32[n_rows, H*d]
    kvp::Tensor guess(const Turn& first, const Layer& layer, const kvp_tensor& input, int64_t row_begin,
                      int64_t n_rows);

    const Context& context_;
    std::vector<Layer> layers_;
    DeviceOp rope_;
    kvp_address zero_ = 0;    // one token id 0
    kvp_address normed_ = 0;  // f32[rows of the step][D]
    kvp_address query_ = 0;   // f32[rows of the step][H*d]
};

}  // namespace kvplane::infinigen
