// The pool of one sequence and layer: which rows leave when it is full. Host data only; the core moves the rows.
#pragma once

#include <cstdint>
#include <vector>

#include "options.h"

namespace kvplane::infinigen {

// Rows are those of the cache, in its order. When a pool is full the core asks for victims in [begin, end), copies the
// page that starts at `end` over them, and takes that page out, so that every row behind it moves down.
class Pool {
public:
    Pool(const PoolSettings& settings, uint32_t n_kv_heads);

    // Rows [n_cached, n_cached + n_rows) are new; what stood from n_cached on is forgotten.
    void append(int64_t n_cached, int64_t n_rows);

    // The rows of each KV head that a step read: the first n_always (sinks, which no selection names), and index
    // [n_kv_heads][stride], of which counts[head] are valid.
    void use(const int32_t* index, const int32_t* counts, uint64_t stride, int64_t n_always = 0);

    // Chooses victims [n_kv_heads][n_victims] in [begin, end), ascending a head: fifo the oldest, lru the longest
    // unused, counter the least used; ties go to the oldest. False when there are not as many rows.
    bool choose(int64_t begin, int64_t end, uint32_t n_victims, int32_t* victims) const;

    // The core has done what choose prepared.
    void replace(int64_t end, uint32_t n_victims, const int32_t* victims);

    int64_t n_rows() const { return static_cast<int64_t>(heads_.front().size()); }
    uint32_t use_count(uint32_t head, int64_t row) const { return heads_[head][static_cast<size_t>(row)].uses; }

private:
    struct Row {
        uint64_t inserted;   // serial number
        uint64_t last_used;  // on the same clock; a new row counts as used
        uint32_t uses;
    };
    using Rows = std::vector<Row>;

    bool leaves_before(const Row& a, const Row& b) const;

    PoolPolicy policy_;
    uint32_t full_count_;
    uint64_t clock_ = 0;
    std::vector<Rows> heads_;
};

}  // namespace kvplane::infinigen
