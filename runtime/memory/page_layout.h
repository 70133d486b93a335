// The one layout of cached K and V, the same in every tier, so that moving is copying:
//   page  = page_tokens tokens of one layer, [kv_head][token][row]
//   group = group_tokens tokens of one KV head, one run of bytes inside a page; the unit that is fetched
//   row   = K||V of one token and KV head, as ops.h has it
#pragma once

#include <cstdint>

#include "kvplane/ops.h"

namespace kvplane {

struct PageLayout {
    uint32_t layers = 0;
    uint32_t kv_heads = 0;
    uint32_t head_size = 0;
    uint32_t page_tokens = 64;
    uint32_t group_tokens = 16;  // divides page_tokens
    uint32_t type = KVP_TYPE_F16;

    uint64_t row_bytes() const { return kvp_row_bytes(type, head_size); }
    uint64_t group_bytes() const { return row_bytes() * group_tokens; }
    uint64_t head_bytes() const { return row_bytes() * page_tokens; }
    uint64_t page_bytes() const { return head_bytes() * kv_heads; }
    uint64_t token_bytes() const { return row_bytes() * kv_heads * layers; }  // in all layers
    uint32_t groups_per_head() const { return page_tokens / group_tokens; }
    uint32_t groups_per_page() const { return groups_per_head() * kv_heads; }
    uint32_t pages(uint64_t tokens) const { return static_cast<uint32_t>((tokens + page_tokens - 1) / page_tokens); }
    // Where a group starts inside its page; `group` counts within the page.
    uint64_t group_offset(uint32_t kv_head, uint32_t group) const {
        return kv_head * head_bytes() + group * group_bytes();
    }
};

}  // namespace kvplane
