// Puts one op in place of several where the device has it (kvp.attention_input, kvp.feed_forward), so that a layer needs
// fewer calls and passes over memory. A device without them runs the parts.
#pragma once

#include "device/device.h"
#include "graph/graph.h"
#include "graph/weights.h"

namespace kvplane {

struct FusionOptions {
    // Somebody wants to see what stands between norm, projection and rotation, so these stay apart.
    bool keep_attention_input_apart = false;
    int64_t max_rows = 0;  // of a step
};

void fuse(Graph& graph, Device& device, const Weights& weights, const FusionOptions& options);

}  // namespace kvplane
