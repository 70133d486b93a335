// The rows that scores are given for: all of a sequence, or those of the pages that a list names for each KV head, one
// page after the other (ops.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "error.h"
#include "kvplane/ops.h"

namespace kvplane::cpu {

class PageLists {
public:
    PageLists(kvp_address pages, kvp_address counts, uint64_t stride, uint32_t page_tokens, uint32_t n_kv_heads,
              int64_t n_tokens)
        : pages_(reinterpret_cast<const int32_t*>(pages)),
          counts_(reinterpret_cast<const int32_t*>(counts)),
          stride_(stride),
          page_tokens_(page_tokens),
          n_tokens_(n_tokens) {
        if (n_tokens < 0 || n_tokens >> 31 != 0) invalid("an index op counts an impossible number of rows");
        if (!listed()) {
            most_entries_ = n_tokens;
            return;
        }
        if (counts_ == nullptr || page_tokens == 0) invalid("listed pages lack their counts or their size");
        if (page_tokens >> 31 != 0) invalid("listed pages have an impossible number of rows");
        for (int64_t head = 0; head < n_kv_heads; ++head) {
            const int64_t count = counts_[head];
            if (count < 0 || static_cast<uint64_t>(count) > stride) invalid("more pages are listed than there is room");
            for (int64_t i = 0; i < count; ++i) {
                const int64_t page = of_head(head)[i];
                if (page <= (i == 0 ? -1 : of_head(head)[i - 1]) || page * page_tokens_ >= n_tokens) {
                    invalid("listed pages must ascend and hold rows");
                }
            }
            most_entries_ = std::max(most_entries_, n_entries(head));
        }
    }

    bool listed() const { return pages_ != nullptr; }
    int64_t most_entries() const { return most_entries_; }

    int64_t n_entries(int64_t head) const {
        if (!listed()) return n_tokens_;
        const int64_t count = counts_[head];
        if (count == 0) return 0;
        const int64_t last = of_head(head)[count - 1];  // it may be part full
        return (count - 1) * page_tokens_ + std::min(page_tokens_, n_tokens_ - last * page_tokens_);
    }

    // The cached row of an entry.
    int64_t row(int64_t head, int64_t entry) const {
        if (!listed()) return entry;
        const auto at = static_cast<uint32_t>(entry);
        const auto size = static_cast<uint32_t>(page_tokens_);
        return of_head(head)[at / size] * page_tokens_ + at % size;
    }

    // The cached rows of ascending entries, in their place.
    void to_rows(int64_t head, int32_t* entries, int64_t n) const {
        if (!listed()) return;
        const int32_t* page = of_head(head);
        int64_t end = page_tokens_;  // of the page's entries
        for (int64_t i = 0; i < n; ++i) {
            for (; entries[i] >= end; end += page_tokens_) ++page;
            entries[i] += static_cast<int32_t>((*page + 1) * page_tokens_ - end);
        }
    }

    // The first entry whose row is at least `row`.
    int64_t entry_from(int64_t head, int64_t row) const {
        row = std::min(std::max<int64_t>(row, 0), n_tokens_);
        if (!listed()) return row;
        const int32_t* pages = of_head(head);
        const int32_t* at = std::lower_bound(pages, pages + counts_[head], static_cast<int32_t>(row / page_tokens_));
        int64_t entry = (at - pages) * page_tokens_;
        if (at != pages + counts_[head] && *at == row / page_tokens_) entry += row % page_tokens_;
        return std::min(entry, n_entries(head));
    }

private:
    const int32_t* of_head(int64_t head) const { return pages_ + static_cast<uint64_t>(head) * stride_; }

    const int32_t* pages_;
    const int32_t* counts_;
    uint64_t stride_;
    int64_t page_tokens_;
    int64_t n_tokens_;
    int64_t most_entries_ = 0;
};

}  // namespace kvplane::cpu
