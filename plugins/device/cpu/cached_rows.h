// Rows K||V of one sequence and layer, found through its group table (ops.h).
#pragma once

#include <cstdint>

#include "error.h"
#include "kernels/kernels.h"
#include "kvplane/ops.h"

namespace kvplane::cpu {

class CachedRows {
public:
    explicit CachedRows(const kvp_rows* rows) {
        if (!KVP_COVERS(kvp_rows, rows, type)) invalid("the cached rows are missing");
        if (rows->groups == 0) invalid("the cached rows have no group table");
        if (rows->type != KVP_TYPE_F16 && rows->type != KVP_TYPE_F32) unsupported("cached rows must be f16 or f32");
        if (rows->head_size == 0 || rows->head_size % 16 != 0) unsupported("the head size must be a multiple of 16");
        if (rows->group_tokens == 0 || rows->n_kv_heads == 0) invalid("the cached rows have no heads or empty groups");
        groups_ = reinterpret_cast<const uint64_t*>(rows->groups);
        groups_stride_ = rows->groups_stride;
        group_tokens_ = rows->group_tokens;
        n_kv_heads_ = rows->n_kv_heads;
        head_size_ = rows->head_size;
        type_ = rows->type == KVP_TYPE_F16 ? RowType::F16 : RowType::F32;
    }

    int64_t n_kv_heads() const { return n_kv_heads_; }
    int64_t head_size() const { return head_size_; }
    int64_t group_tokens() const { return group_tokens_; }
    RowType type() const { return type_; }
    int64_t element_bytes() const { return type_ == RowType::F16 ? 2 : 4; }
    int64_t row_bytes() const { return 2 * head_size_ * element_bytes(); }

    // NULL when the token is outside the table or its group is not where the CPU can read it.
    uint8_t* row(int64_t kv_head, int64_t token) const {
        if (token < 0 || token >> 32 != 0) return nullptr;
        const uint32_t group = static_cast<uint32_t>(token) / group_tokens_;
        if (group >= groups_stride_) return nullptr;
        const uint64_t base = groups_[static_cast<uint64_t>(kv_head) * groups_stride_ + group];
        const uint32_t inside = static_cast<uint32_t>(token) - group * group_tokens_;
        return base == 0 ? nullptr : reinterpret_cast<uint8_t*>(base) + static_cast<int64_t>(inside) * row_bytes();
    }

    // The same for many ops of a step: throws instead.
    uint8_t* existing_row(int64_t kv_head, int64_t token) const {
        uint8_t* found = row(kv_head, token);
        if (found == nullptr) {
            invalid("cached row " + std::to_string(token) + " of KV head " + std::to_string(kv_head) +
                    " is not in the group table");
        }
        return found;
    }

    // All rows of [begin, end) are there; for checks before a region, whose parts must not throw.
    void expect(int64_t begin, int64_t end) const {
        for (int64_t head = 0; head < n_kv_heads_; ++head) {
            for (int64_t token = begin; token < end; token = (token / group_tokens_ + 1) * group_tokens_) {
                existing_row(head, token);
            }
        }
    }

private:
    const uint64_t* groups_;
    uint64_t groups_stride_;
    uint32_t group_tokens_;
    uint32_t n_kv_heads_;
    uint32_t head_size_;
    RowType type_;
};

}  // namespace kvplane::cpu
