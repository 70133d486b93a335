// The rows that the segments of one sequence name for one KV head, one after the other, in blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "cached_rows.h"

namespace kvplane::cpu {

struct RowBlock {
    RowLayout layout;
    bool causal;
    bool biased;
    int64_t n;
    const uint8_t* rows[kBlockRows] = {};
    int64_t tokens[kBlockRows];  // cached row, ascending; 0 for virtual rows, which every query sees
    float bias[kBlockRows];

    // K or V of its rows. `following` is read next, null if nothing is: the first half of it is asked for with K.
    Rows keys(const RowBlock* following) const { return part(0, layout.key_scale(), following, 0); }
    Rows values(const RowBlock* following) const { return part(layout.value(), layout.value_scale(), following, 1); }

private:
    Rows part(int64_t offset, int64_t scale, const RowBlock* following, int64_t half) const {
        if (following == nullptr) return {rows, n, offset, nullptr, 0, scale};
        return {rows, n, offset, following->rows + half * (n / 2), following->layout.bytes(), scale};
    }
};

// Checked segments of one item. A slot is what an index form counts before anything is left out: a token of a range or
// of a listed page, an entry of a row list, a virtual row.
class Segments {
public:
    // Throws PluginError on what no index could mean.
    explicit Segments(const kvp_attention_item& item);

    const CachedRows& rows() const { return rows_; }
    int64_t n_slots(int64_t kv_head) const;

private:
    friend class RowCursor;
    struct Entry {
        const kvp_segment* segment;
        int64_t begin;  // bounds of cached rows
        int64_t end;
        bool causal;
        RowType virtual_type;
    };
    int64_t n_slots(const Entry& entry, int64_t kv_head) const;

    CachedRows rows_;
    std::vector<Entry> entries_;
};

// Walks slots [first, last) of a KV head for queries at cached rows up to `last_position`.
class RowCursor {
public:
    RowCursor() = default;
    RowCursor(const Segments& segments, int64_t kv_head, int64_t first, int64_t last, int64_t last_position);

    // The next block of at most kBlockRows rows, never of two segments; of a range, up to a multiple of kBlockRows.
    // False at the end, or when a row is not readable (then missing() >= 0).
    bool next(RowBlock& block);
    int64_t missing() const { return missing_; }

private:
    bool fill(const Segments::Entry& entry, int64_t n_slots, RowBlock& block);
    bool fill_run(const Segments::Entry& entry, int64_t n_slots, RowBlock& block);
    void add_virtual(const Segments::Entry& entry, int64_t slot, RowBlock& block) const;
    int64_t token_of(const kvp_segment& segment, int64_t slot, const Segments::Entry& entry) const;

    const Segments* segments_ = nullptr;
    int64_t kv_head_ = 0;
    int64_t last_position_ = 0;
    size_t entry_ = 0;
    int64_t slot_ = 0;  // inside the entry
    int64_t left_ = 0;
    int64_t missing_ = -1;
};

}  // namespace kvplane::cpu
