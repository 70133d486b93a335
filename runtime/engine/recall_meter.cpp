#include "engine/recall_meter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "model/tensor_type.h"

namespace kvplane {

namespace {

// Which of n rows each KV head selected, [kv_head][n].
std::vector<uint8_t> selected_rows(KvStore& store, std::span<const kvp_segment> segments, size_t n) {
    const uint32_t kv_heads = store.layout().kv_heads;
    std::vector<uint8_t> selected(kv_heads * n, 0);
    const auto mark = [&](uint32_t head, int64_t begin, int64_t end) {
        for (int64_t row = begin; row < std::min(end, static_cast<int64_t>(n)); ++row) {
            selected[head * n + static_cast<size_t>(row)] = 1;
        }
    };
    for (const kvp_segment& segment : segments) {
        if (segment.form == KVP_SEGMENT_VIRTUAL) continue;
        if (segment.form == KVP_SEGMENT_RANGE) {
            for (uint32_t head = 0; head < kv_heads; ++head) mark(head, segment.begin, segment.end);
            continue;
        }
        const int64_t unit = segment.form == KVP_SEGMENT_PAGE_LIST ? segment.page_tokens : 1;
        const KvStore::Lists lists = store.lists(segment);
        for (uint32_t head = 0; head < kv_heads; ++head) {
            for (int32_t i = 0; i < lists.counts[head]; ++i) {
                const int64_t entry = lists.index[head * lists.stride + static_cast<uint64_t>(i)];
                mark(head, entry * unit, (entry + 1) * unit);
            }
        }
    }
    return selected;
}

// K of one cached row (ops.h).
void read_key(uint32_t type, const std::byte* row, size_t d, float* key) {
    if (type == KVP_TYPE_F32) {
        std::memcpy(key, row, d * sizeof(float));
        return;
    }
    const auto half_at = [row](size_t offset) {
        uint16_t half;
        std::memcpy(&half, row + offset, sizeof half);
        return half_to_float(half);
    };
    if (type == KVP_TYPE_F16) {
        for (size_t i = 0; i < d; ++i) key[i] = half_at(2 * i);
        return;
    }
    if (type == KVP_TYPE_BF16) {
        for (size_t i = 0; i < d; ++i) {
            uint16_t upper;
            std::memcpy(&upper, row + 2 * i, sizeof upper);
            const uint32_t bits = uint32_t{upper} << 16;
            std::memcpy(&key[i], &bits, sizeof bits);
        }
        return;
    }
    if (type == KVP_TYPE_I8_GROUPS || type == KVP_TYPE_I4_GROUPS) {
        const bool four_bits = type == KVP_TYPE_I4_GROUPS;
        for (size_t i = 0; i < d; ++i) {
            const auto byte = std::to_integer<uint32_t>(row[four_bits ? i / 2 : i]);
            const uint32_t code = !four_bits ? byte : i % 2 == 0 ? byte >> 4 : byte & 15;
            const size_t scales = (four_bits ? d : 2 * d) + i / 64 * 4;
            key[i] = static_cast<float>(code) / half_at(scales) + half_at(scales + 2);
        }
        return;
    }
    const float scale = half_at(2 * d);
    for (size_t i = 0; i < d; ++i) key[i] = scale * static_cast<float>(static_cast<int8_t>(row[i]));
}

// K of cached rows [0, n), [kv_head][n][head_size].
std::vector<float> all_keys(KvStore& store, const CachedPart& part, uint32_t layer, size_t n) {
    const PageLayout& layout = store.layout();
    const size_t d = layout.head_size;
    std::vector<float> keys(layout.kv_heads * n * d);
    store.walk(*part.cache, layer, 0, static_cast<int64_t>(n), [&](const kvp_rows& rows, int64_t begin, int64_t end) {
        const auto* groups = reinterpret_cast<const kvp_address*>(rows.groups);
        for (uint32_t head = 0; head < layout.kv_heads; ++head) {
            for (auto row = static_cast<uint64_t>(begin); row < static_cast<uint64_t>(end); ++row) {
                const kvp_address group = groups[head * rows.groups_stride + row / layout.group_tokens];
                const kvp_address at = group + row % layout.group_tokens * layout.shown_row_bytes();
                float* target = &keys[(head * n + row) * d];
                read_key(layout.type, reinterpret_cast<const std::byte*>(at), d, target);
            }
        }
    });
    return keys;
}

}  // namespace

void RecallMeter::measure(KvStore& store, const CachedPart& part, uint32_t layer, std::span<const float> query,
                          float scale) {
    const PageLayout& layout = store.layout();
    const size_t d = layout.head_size;
    const auto n = static_cast<size_t>(part.abi.n_cached + part.abi.n_rows);
    const std::vector<uint8_t> selected = selected_rows(store, part.segments, n);
    const std::vector<float> keys = all_keys(store, part, layer, n);
    const size_t heads = query.size() / d;
    const size_t group = heads / layout.kv_heads;
    std::vector<double> weights(n);
    std::vector<uint32_t> order(n);
    for (size_t head = 0; head < heads; ++head) {
        const size_t kv_head = head / group;
        double most = -INFINITY, sum = 0;
        for (size_t row = 0; row < n; ++row) {
            const float* key = &keys[(kv_head * n + row) * d];
            double dot = 0;
            for (size_t i = 0; i < d; ++i) dot += double{query[head * d + i]} * double{key[i]};
            weights[row] = dot * scale;
            most = std::max(most, weights[row]);
        }
        for (double& weight : weights) sum += weight = std::exp(weight - most);
        const uint8_t* chosen = &selected[kv_head * n];
        const auto count = std::count(chosen, chosen + n, uint8_t{1});
        if (count == 0) continue;
        std::iota(order.begin(), order.end(), 0u);
        std::nth_element(order.begin(), order.begin() + (count - 1), order.end(),
                         [&](uint32_t a, uint32_t b) { return weights[a] > weights[b]; });
        const auto hits =
            std::count_if(order.begin(), order.begin() + count, [&](uint32_t row) { return chosen[row]; });
        double kept = 0;
        for (size_t row = 0; row < n; ++row) kept += chosen[row] ? weights[row] / sum : 0;
        recall_ += static_cast<double>(hits) / static_cast<double>(count);
        mass_ += kept;
        ++samples_;
    }
}

}  // namespace kvplane
