// Rows K||V of one sequence and layer, found through its group table (ops.h).
#pragma once

#include <cstdint>

#include "error.h"
#include "kernels/kernels.h"
#include "kvplane/ops.h"

namespace kvplane::cpu {

// The bytes of a row K||V (ops.h).
struct RowLayout {
    RowType type;
    int64_t head_size;

    // Of K, and of V.
    int64_t half_bytes() const {
        switch (type) {
            case RowType::F32: return 4 * head_size;
            case RowType::F16:
            case RowType::BF16: return 2 * head_size;
            case RowType::I4Groups: return head_size / 2;
            default: return head_size;
        }
    }
    int64_t scale_bytes() const {
        if (type == RowType::I8) return 2;
        return in_groups() ? (head_size + kGroupColumns - 1) / kGroupColumns * 4 : 0;
    }
    int64_t bytes() const { return 2 * (half_bytes() + scale_bytes()); }
    bool in_groups() const { return type == RowType::I8Groups || type == RowType::I4Groups; }
    // Attention multiplies these as they are; the others it widens to f32 first, a block at a time.
    bool is_multiplied() const { return type == RowType::F32 || type == RowType::F16 || type == RowType::I8; }
    // From the row's begin.
    int64_t value() const { return half_bytes(); }
    int64_t key_scale() const { return 2 * half_bytes(); }
    int64_t value_scale() const { return 2 * half_bytes() + scale_bytes(); }
};

class CachedRows {
public:
    explicit CachedRows(const kvp_rows* rows) {
        if (!KVP_COVERS(kvp_rows, rows, type)) invalid("the cached rows are missing");
        if (rows->groups == 0) invalid("the cached rows have no group table");
        if (kvp_row_bytes(rows->type, rows->head_size) == 0) unsupported("no such type of cached rows");
        if (rows->head_size == 0 || rows->head_size % 16 != 0) unsupported("the head size must be a multiple of 16");
        if (rows->group_tokens == 0 || rows->n_kv_heads == 0) invalid("the cached rows have no heads or empty groups");
        groups_ = reinterpret_cast<const uint64_t*>(rows->groups);
        groups_stride_ = rows->groups_stride;
        group_tokens_ = rows->group_tokens;
        n_kv_heads_ = rows->n_kv_heads;
        layout_ = {row_type(rows->type), rows->head_size};
    }

    int64_t n_kv_heads() const { return n_kv_heads_; }
    int64_t head_size() const { return layout_.head_size; }
    int64_t group_tokens() const { return group_tokens_; }
    const RowLayout& layout() const { return layout_; }
    RowType type() const { return layout_.type; }
    int64_t row_bytes() const { return layout_.bytes(); }

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

    // out[n][d] = K in f32, or V, of n rows that are there.
    void widen(const Kernels& kernels, const uint8_t* const* rows, int64_t n, float* out, bool values = false) const {
        Rows wanted{rows, n, values ? layout_.value() : 0, nullptr, 0};
        wanted.scale = values ? layout_.value_scale() : layout_.key_scale();
        kernels.widen_rows(type(), wanted, head_size(), out);
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
    static RowType row_type(uint32_t type) {
        switch (type) {
            case KVP_TYPE_F32: return RowType::F32;
            case KVP_TYPE_F16: return RowType::F16;
            case KVP_TYPE_BF16: return RowType::BF16;
            case KVP_TYPE_I8_GROUPS: return RowType::I8Groups;
            case KVP_TYPE_I4_GROUPS: return RowType::I4Groups;
            default: return RowType::I8;
        }
    }

    const uint64_t* groups_;
    uint64_t groups_stride_;
    uint32_t group_tokens_;
    uint32_t n_kv_heads_;
    RowLayout layout_;
};

}  // namespace kvplane::cpu
