// Bytes that must be read from memory for a token: what a cell's speed is held against. Each is counted once a step,
// however often a kernel comes back to it.
#pragma once

#include <cstdint>

#include "model/model.h"

namespace kvplane::tool {

// By what a step reads them for, in the file's encoding.
struct WeightBytes {
    double layers = 0;         // every tensor but the two below: all rows of a step share one read
    double output = 0;         // the output matrix, whole: once for the rows whose logits are wanted
    double embedding_row = 0;  // one a token

    explicit WeightBytes(const Model& model);
};

struct Traffic {
    double weights = 0;
    double kv = 0;
    double index = 0;  // what a strategy went through to choose among the rows
    // How kv was found. "all rows": everything that is cached. "counted": what the run's statistics say.
    const char* kv_basis = "all rows";

    double bytes_per_token() const { return weights + kv + index; }
};

}  // namespace kvplane::tool
