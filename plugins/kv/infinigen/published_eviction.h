// The eviction of the artifact's evaluator, which the paper's pool results are believed to come from (infinigen.md 1.5).
// It is a mask: no row leaves. Once a text is longer than the limit, every step masks one row of each KV head, the least used
// of the older half. A row that is masked stays a candidate and is never used again, so that the same one is chosen step
// after step and the limit hardly binds.
#pragma once

#include <cstdint>
#include <vector>

#include "pool.h"

namespace kvplane::infinigen {

class PublishedEviction {
public:
    // Masks none of the first n_always rows, which every step reads.
    PublishedEviction(const PoolSettings& settings, int64_t n_always, uint32_t n_kv_heads);

    // Rows [n_cached, n_cached + n_rows) are new; what stood from n_cached on is forgotten.
    void append(int64_t n_cached, int64_t n_rows);

    // The rows that a step selected, as Pool::use takes them; masks the step's victims.
    void use(const int32_t* index, const int32_t* counts, uint64_t stride);

    // Rows that no selection may name, in the order in which they were masked.
    const std::vector<int32_t>& masked(uint32_t head) const { return masked_[head]; }

private:
    int64_t limit_;
    int64_t n_always_;
    Pool uses_;
    std::vector<std::vector<int32_t>> masked_;  // [kv_head]
};

}  // namespace kvplane::infinigen
