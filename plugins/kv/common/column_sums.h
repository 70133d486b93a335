// How much attention cached rows got from some queries: sums of the probabilities that attention's log-sum-exp gives back.
#pragma once

#include "common/device_op.h"
#include "common/turn.h"

namespace kvplane::kv {

struct QueryRows {
    const kvp_tensor* query;  // f32[n, H*d], after RoPE
    const kvp_tensor* lse;    // f32[n, H]
    int64_t row_begin;
    int64_t n_rows;
    int64_t first;  // the cached row of the first
};

struct Sums {
    kvp_address sums;    // f32[G][capacity]
    kvp_address counts;  // the same: how many queries a row was seen by; 0: not wanted
    uint64_t capacity;
    int64_t fresh_begin;  // rows from here on start at 0
};

class ColumnSums {
public:
    ColumnSums(const kvp_kv_core& core, const kvp_kv_model& model);
    // Adds what the queries gave to the layer's rows, wherever these are.
    void add(const Turn& turn, const QueryRows& queries, const Sums& sums) const;

private:
    DeviceOp column_sums_;
    uint32_t n_heads_;
    float scale_;
};

}  // namespace kvplane::kv
