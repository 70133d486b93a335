// The best of many scores, as a list in the step's memory: of rows, or of pages, which are rows to the op.
#pragma once

#include "common/device_op.h"
#include "common/turn.h"

namespace kvplane::kv {

struct ScoredRows {
    kvp_address scores;  // f32[G][stride]
    uint64_t stride;
    int64_t n;           // scores a KV head
    int64_t skip_begin;  // of them, not to be chosen
    int64_t skip_end;
    uint32_t count;  // to choose a KV head; at least 1
};

struct SelectedRows {
    kvp_address index;   // i32[G][count], ascending
    kvp_address counts;  // i32[G]
    uint32_t count;      // room a KV head
};

class RowSelection {
public:
    RowSelection(const kvp_kv_core& core, uint32_t n_kv_heads);
    // Ties: the lower row.
    SelectedRows select(const Turn& turn, const ScoredRows& scored) const;

private:
    DeviceOp select_rows_;
    uint32_t n_kv_heads_;
};

// What attention reads of a selection.
kvp_segment row_list(const SelectedRows& selected);
kvp_segment page_list(const SelectedRows& selected, uint32_t page_tokens);

}  // namespace kvplane::kv
