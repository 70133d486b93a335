// What a selection misses: at a sample of decode steps and layers, dense attention over all tokens is computed beside it
// on the host, in f32 on unrounded K and V, and compared. The core does it alone, so every strategy and codec is measured
// with the same rod. Costs a copy of K and V of the layers that are looked at (shadow_rows.h), and a pass over it a sample.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "engine/shadow_rows.h"
#include "engine/strategy.h"
#include "memory/kv_store.h"

namespace kvplane {

// Sums over (step, layer, query head)s that were looked at.
struct RecallSums {
    double samples = 0;
    double recall = 0;  // of the N tokens with the greatest true weights, the share among the N that were visible
    double mass = 0;    // true weights of the visible tokens
    double error = 0;   // |o - dense o| / |dense o| of the head's output
};

// One look at a sequence in a layer.
struct RecallSample {
    uint64_t step = 0;
    uint64_t sequence = 0;
    uint32_t layer = 0;
    int64_t position = 0;  // of the query; tokens up to it count
    std::vector<std::vector<int32_t>>
        visible;                 // [kv_head]: tokens that attention saw, ascending; virtual rows do not count
    std::vector<float> weights;  // [query head][position + 1], true ones
    double error = 0;            // of all heads' outputs together
};

class RecallMeter {
public:
    // Of these layers.
    RecallMeter(uint32_t first_layer, uint32_t n_layers, uint32_t kv_heads, uint32_t head_size);

    // Looks at every `every`th decode step (0: never) in at most `most_layers` layers, spread evenly. Before the first token
    // of a sequence, or that sequence is not measured.
    void set_every(uint64_t every, uint32_t most_layers = 6);
    // Looks at every layer at every `every`th decode step; a sequence whose error in a layer passes the bound reads all
    // rows of that layer from then on.
    void guard(double error, uint64_t every);
    // Told of every sample.
    std::function<void(const RecallSample&)> on_sample;

    bool wants(uint32_t layer) const { return layers_.contains(layer); }
    bool is_due(uint64_t step, uint32_t layer) const;
    // What the runner shows: rows of a step; then, in a step that is due, the query and attention's output of a part's row,
    // [heads][head_size].
    void add_rows(const CachedPart& part, uint32_t layer, std::span<const float> keys, std::span<const float> values);
    void measure(uint64_t step, KvStore& store, const CachedPart& part, uint32_t layer, std::span<const float> query,
                 std::span<const float> output, float scale);
    // What becomes of sequences.
    void rows_moved(uint64_t sequence, uint32_t layer, int64_t n_rows, const std::vector<std::vector<int32_t>>& from) {
        shadow_.rows_moved(sequence, layer, n_rows, from);
    }
    void fork(uint64_t from, uint64_t to);
    void rewind(uint64_t sequence, int64_t n_tokens) { shadow_.rewind(sequence, n_tokens, width_); }
    void close(uint64_t sequence);

    // The guard has turned this layer dense for the sequence.
    bool is_dense(uint64_t sequence, uint32_t layer) const { return dense_.contains({sequence, layer}); }

    const RecallSums& sums() const { return sums_; }
    uint64_t guard_checks() const { return guard_checks_; }
    uint64_t guard_turned_dense() const { return guard_turned_dense_; }

private:
    uint32_t first_layer_, n_layers_, kv_heads_, head_size_;
    size_t width_;  // of a token's K
    uint64_t every_ = 0, guard_every_ = 0;
    double guard_error_ = 0;
    std::set<uint32_t> sampled_, layers_;  // for the figures; for them and the guard
    ShadowRows shadow_;
    std::set<std::pair<uint64_t, uint32_t>> dense_;
    RecallSums sums_;
    uint64_t guard_checks_ = 0, guard_turned_dense_ = 0;
};

}  // namespace kvplane
