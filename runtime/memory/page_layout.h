// The one layout of cached K and V, the same in every tier, so that moving is copying:
//   page  = page_tokens tokens of one layer, [kv_head][group]
//   group = group_tokens tokens of one KV head, one run of bytes inside a page; the unit that is fetched
//   row   = K||V of one token and KV head, as ops.h has it, or as a codec has it that the device does not know
#pragma once

#include <cstdint>

#include "kvplane/ops.h"
#include "memory/codec.h"

namespace kvplane {

struct PageLayout {
    uint32_t layers = 0;
    uint32_t kv_heads = 0;
    uint32_t head_size = 0;
    uint32_t page_tokens = 64;
    uint32_t group_tokens = 16;    // divides page_tokens
    uint32_t type = KVP_TYPE_F16;  // of the rows that ops see
    const Codec* codec = nullptr;  // of the rows in pages, where it is not `type`: then ops see them decoded
    uint32_t recent_groups = 0;    // room for rows that are not encoded yet, a layer and KV head; with a codec

    // As stored.
    uint64_t group_bytes() const { return codec != nullptr ? codec->bytes(group_tokens) : shown_group_bytes(); }
    // Where each row stands alone.
    uint64_t row_bytes() const { return group_bytes() / group_tokens; }
    uint64_t head_bytes() const { return group_bytes() * groups_per_head(); }
    uint64_t page_bytes() const { return head_bytes() * kv_heads; }
    uint64_t token_bytes() const { return group_bytes() * kv_heads * layers / group_tokens; }  // in all layers
    // As ops see it.
    uint64_t shown_row_bytes() const { return kvp_row_bytes(type, head_size); }
    uint64_t shown_group_bytes() const { return shown_row_bytes() * group_tokens; }

    uint32_t groups_per_head() const { return page_tokens / group_tokens; }
    uint32_t groups_per_page() const { return groups_per_head() * kv_heads; }
    uint32_t pages(uint64_t tokens) const { return static_cast<uint32_t>((tokens + page_tokens - 1) / page_tokens); }
    // Where a group starts inside its page; `group` counts within the page.
    uint64_t group_offset(uint32_t kv_head, uint32_t group) const {
        return kv_head * head_bytes() + group * group_bytes();
    }
};

}  // namespace kvplane
