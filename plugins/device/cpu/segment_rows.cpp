#include "segment_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "op.h"

namespace kvplane::cpu {
namespace {

bool is_list(const kvp_segment& segment) {
    return segment.form == KVP_SEGMENT_PAGE_LIST || segment.form == KVP_SEGMENT_ROW_LIST;
}

void check_list(const kvp_segment& segment, int64_t n_kv_heads) {
    if (segment.index == 0 || segment.count == 0) invalid("a list segment has no index or no count");
    if (segment.form == KVP_SEGMENT_PAGE_LIST && segment.page_tokens == 0) invalid("a page list has pages of 0 tokens");
    const auto* count = reinterpret_cast<const int32_t*>(segment.count);
    for (int64_t head = 0; head < n_kv_heads; ++head) {
        if (count[head] < 0 || static_cast<uint64_t>(count[head]) > segment.index_stride) {
            invalid("a list segment counts " + std::to_string(count[head]) + " entries of " +
                    std::to_string(segment.index_stride));
        }
    }
}

}  // namespace

Segments::Segments(const kvp_attention_item& item) : rows_(item.rows) {
    if (item.n_segments > 0 && item.segments == nullptr) invalid("an attention item has no segments");
    for (uint32_t i = 0; i < item.n_segments; ++i) {
        const auto& segment = structure<kvp_segment>(item.segments[i], "a segment");
        Entry entry{&segment, 0, std::numeric_limits<int64_t>::max(), (segment.flags & KVP_SEGMENT_CAUSAL) != 0,
                    RowType::F32};
        if (segment.form == KVP_SEGMENT_RANGE) {
            if (segment.begin < 0) invalid("a range segment begins before row 0");
            entry.begin = segment.begin;
            entry.end = entry.causal ? std::min(segment.end, item.token_begin + item.n_rows) : segment.end;
        } else if (is_list(segment)) {
            check_list(segment, rows_.n_kv_heads());
            if (segment.end > 0) {  // 0: the list alone says which rows
                entry.begin = segment.begin;
                entry.end = segment.end;
            }
        } else if (segment.form == KVP_SEGMENT_VIRTUAL) {
            if (segment.virtual_count > 0 && segment.virtual_rows == 0) invalid("a virtual segment has no rows");
            if (segment.virtual_count > segment.virtual_stride)
                invalid("a virtual segment counts more rows than its stride");
            if (segment.virtual_type != KVP_TYPE_F32 && segment.virtual_type != KVP_TYPE_F16) {
                unsupported("virtual rows must be f16 or f32");
            }
            entry.causal = false;
            entry.virtual_type = segment.virtual_type == KVP_TYPE_F16 ? RowType::F16 : RowType::F32;
        } else {
            unsupported("unknown form " + std::to_string(segment.form) + " of a segment");
        }
        entries_.push_back(entry);
    }
}

int64_t Segments::n_slots(const Entry& entry, int64_t kv_head) const {
    const kvp_segment& segment = *entry.segment;
    switch (segment.form) {
        case KVP_SEGMENT_RANGE: return std::max<int64_t>(0, entry.end - entry.begin);
        case KVP_SEGMENT_VIRTUAL: return segment.virtual_count;
        default: break;
    }
    const int64_t count = reinterpret_cast<const int32_t*>(segment.count)[kv_head];
    return segment.form == KVP_SEGMENT_PAGE_LIST ? count * segment.page_tokens : count;
}

int64_t Segments::n_slots(int64_t kv_head) const {
    int64_t total = 0;
    for (const Entry& entry : entries_) total += n_slots(entry, kv_head);
    return total;
}

RowCursor::RowCursor(const Segments& segments, int64_t kv_head, int64_t first, int64_t last, int64_t last_position)
    : segments_(&segments), kv_head_(kv_head), last_position_(last_position), slot_(first), left_(last - first) {}

bool RowCursor::next(RowBlock& block) {
    block.n = 0;
    while (entry_ < segments_->entries_.size() && left_ > 0) {
        const Segments::Entry& entry = segments_->entries_[entry_];
        const int64_t n_slots = segments_->n_slots(entry, kv_head_);
        if (slot_ >= n_slots) {
            slot_ -= n_slots;
            ++entry_;
            continue;
        }
        if (!fill(entry, n_slots, block)) return false;
        if (block.n > 0) return true;
    }
    return false;
}

int64_t RowCursor::token_of(const kvp_segment& segment, int64_t slot, const Segments::Entry& entry) const {
    if (segment.form == KVP_SEGMENT_RANGE) return entry.begin + slot;
    const auto* index =
        reinterpret_cast<const int32_t*>(segment.index) + static_cast<uint64_t>(kv_head_) * segment.index_stride;
    if (segment.form == KVP_SEGMENT_ROW_LIST) return index[slot];
    const auto page_tokens = static_cast<int64_t>(segment.page_tokens);
    return index[slot / page_tokens] * page_tokens + slot % page_tokens;
}

void RowCursor::add_virtual(const Segments::Entry& entry, int64_t slot, RowBlock& block) const {
    const kvp_segment& segment = *entry.segment;
    const int64_t row = kv_head_ * static_cast<int64_t>(segment.virtual_stride) + slot;
    const float bias = segment.virtual_bias != 0 ? reinterpret_cast<const float*>(segment.virtual_bias)[row] : 0.0f;
    if (bias == -std::numeric_limits<float>::infinity()) return;
    block.rows[block.n] = reinterpret_cast<const uint8_t*>(segment.virtual_rows) + row * block.layout.bytes();
    block.tokens[block.n] = 0;
    block.bias[block.n++] = bias;
}

// Of a range, the rest of the group that the slot is in: rows one after the other.
bool RowCursor::fill_run(const Segments::Entry& entry, int64_t n_slots, RowBlock& block) {
    const CachedRows& cached = segments_->rows_;
    const int64_t token = entry.begin + slot_;
    const int64_t inside = token % cached.group_tokens();
    int64_t n = std::min({cached.group_tokens() - inside, n_slots - slot_, left_, kBlockRows - block.n});
    if (entry.causal && token + n - 1 > last_position_) {
        n = last_position_ - token + 1;
        if (n <= 0) {  // so is all that follows
            left_ -= std::min(left_, n_slots - slot_);
            slot_ = n_slots;
            return true;
        }
    }
    const uint8_t* row = cached.row(kv_head_, token);
    if (row == nullptr) {
        missing_ = token;
        return false;
    }
    for (int64_t i = 0; i < n; ++i) {
        block.rows[block.n + i] = row + i * cached.row_bytes();
        block.tokens[block.n + i] = token + i;
    }
    block.n += n;
    slot_ += n;
    left_ -= n;
    return true;
}

bool RowCursor::fill(const Segments::Entry& entry, int64_t n_slots, RowBlock& block) {
    const kvp_segment& segment = *entry.segment;
    const CachedRows& cached = segments_->rows_;
    const bool is_virtual = segment.form == KVP_SEGMENT_VIRTUAL;
    block.layout = is_virtual ? RowLayout{entry.virtual_type, cached.head_size()} : cached.layout();
    block.causal = entry.causal;
    block.biased = is_virtual && segment.virtual_bias != 0;
    if (segment.form == KVP_SEGMENT_RANGE) {
        while (slot_ < n_slots && left_ > 0 && block.n < kBlockRows) {
            if (!fill_run(entry, n_slots, block)) return false;
            if ((entry.begin + slot_) % kBlockRows == 0) break;  // so that heads in turn walk along whole pages
        }
        return true;
    }
    const uint8_t* previous = nullptr;  // tokens of one group lie one after the other
    int64_t previous_token = -1;
    int64_t group_end = -1;
    for (; slot_ < n_slots && left_ > 0 && block.n < kBlockRows; ++slot_, --left_) {
        if (is_virtual) {
            add_virtual(entry, slot_, block);
            continue;
        }
        const int64_t token = token_of(segment, slot_, entry);
        if (token < entry.begin || token >= entry.end) continue;
        if (entry.causal && token > last_position_) {  // ascending: so is all that follows
            left_ -= std::min(left_, n_slots - slot_);
            slot_ = n_slots;
            return true;
        }
        const uint8_t* row;
        if (token == previous_token + 1 && token < group_end) {
            row = previous + cached.row_bytes();
        } else {
            row = cached.row(kv_head_, token);
            group_end =
                (static_cast<int64_t>(static_cast<uint32_t>(token) / static_cast<uint32_t>(cached.group_tokens())) +
                 1) *
                cached.group_tokens();
        }
        if (row == nullptr) {
            missing_ = std::max<int64_t>(token, 0);
            return false;
        }
        block.rows[block.n] = row;
        block.tokens[block.n++] = token;
        previous = row;
        previous_token = token;
    }
    return true;
}

}  // namespace kvplane::cpu
