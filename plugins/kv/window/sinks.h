// StreamingLLM's positions. There, keys are cached before RoPE and turned at each step to their place in the cache. RoPE sees
// distances alone, and between the rows of the window places and true positions are equally far apart; only the sinks are
// nearer to it in the cache than in the text. So it is enough to turn the sinks, by as many positions as tokens are missing
// between them and the window. They are turned from their cached rows at every step: no rounding adds up.
#pragma once

#include "common/device_op.h"
#include "common/turn.h"

namespace kvplane::window {

class TurnedSinks {
public:
    TurnedSinks() = default;  // of models without RoPE: nothing is turned
    TurnedSinks(const kvp_kv_core& core, const kvp_kv_model& model, int64_t n_sinks);

    explicit operator bool() const { return static_cast<bool>(turned_rows_); }
    // The sinks as virtual rows, nearer by `shift` positions.
    kvp_segment segment(const kv::Turn& turn, int64_t shift) const;
    uint64_t scratch_bytes() const { return n_kv_heads_ * static_cast<uint64_t>(n_sinks_) * row_bytes_; }

private:
    kv::DeviceOp turned_rows_;
    int64_t n_sinks_ = 0;
    uint64_t n_kv_heads_ = 0;
    uint64_t row_bytes_ = 0;
};

}  // namespace kvplane::window
