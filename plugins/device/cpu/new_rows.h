// Where the keys and values of a step's rows go in the cache (kvp_kv_write_arguments).
#pragma once

#include "cached_rows.h"
#include "op.h"

namespace kvplane::cpu {

class NewRows {
public:
    // For a step of n_rows rows of KV heads that are `width` wide together. Throws PluginError when a place is not in
    // its group table, so that regions need not check. Places are kept in the queue's workspace.
    NewRows(kvp_queue& queue, const void* arguments, int64_t n_rows, int64_t width);

    int64_t n_kv_heads() const { return n_kv_heads_; }
    int64_t head_size() const { return layout_.head_size; }

    // One head's key or value of a row of the step; nothing for a row that no sequence has.
    void write_key(int64_t row, int64_t head, const float* key) const { write(row, head, key, false); }
    void write_value(int64_t row, int64_t head, const float* value) const { write(row, head, value, true); }

private:
    void write(int64_t row, int64_t head, const float* values, bool is_value) const;

    const Kernels& kernels_;
    int64_t n_kv_heads_ = 0;
    RowLayout layout_{RowType::F16, 0};
    uint8_t** places_ = nullptr;  // [n_rows][n_kv_heads]
};

}  // namespace kvplane::cpu
