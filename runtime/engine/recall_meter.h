// What a selection misses: at a sample of decode steps, dense attention is computed beside it on the host, and
// compared. The core does it alone, so every strategy is measured with the same rod. Costs one pass over K a sampled
// layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/strategy.h"
#include "memory/kv_store.h"

namespace kvplane {

// Sums over (step, layer, query head)s that were looked at.
struct RecallSums {
    double samples = 0;
    double recall = 0;  // share of the N rows with the greatest true weights that were among the N selected ones
    double mass = 0;    // true weights of the selected rows
};

class RecallMeter {
public:
    // Looks at every `every`th decode step; 0: never.
    void set_every(uint64_t every) { every_ = every; }
    bool is_due(uint64_t step) const { return every_ > 0 && step % every_ == 0; }

    // `query`: [heads][head_size] of the part's row, on the host. Rows that segments name one by one count as selected,
    // the step's own row too; virtual rows do not.
    void measure(KvStore& store, const CachedPart& part, uint32_t layer, std::span<const float> query, float scale);

    const RecallSums& sums() const { return sums_; }

private:
    uint64_t every_ = 0;
    RecallSums sums_;
};

}  // namespace kvplane
