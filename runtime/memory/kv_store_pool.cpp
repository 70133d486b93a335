// A cache that may not grow (InfiniGen's pool): one page's rows take the places of victims, then the page goes.
#include <algorithm>
#include <utility>

#include "memory/kv_store.h"

namespace kvplane {

void KvStore::copy_rows(const Tier& from, const Tier& to, RowMoves& moves) {
    if (moves.from.empty()) return;
    transfers_.wait(transfers_.submit(from, to, moves.from, moves.to, layout_.row_bytes(), KVP_PRIORITY_FOREGROUND));
    moves = {};
}

void KvStore::replace_rows(SequenceCache& sequence, uint32_t layer, uint32_t page_index,
                           std::span<const int32_t> victims) {
    while (!stores_.empty()) retire_stores(true);
    LayerCache& cache = sequence.layers[layer];
    const uint32_t n_rows = layout_.page_tokens;
    const auto row_offset = [&](const Tier& tier, int32_t slot, uint32_t head, uint64_t row) {
        return tier.offset(slot) + head * layout_.head_bytes() + row % n_rows * layout_.row_bytes();
    };
    for (const int32_t victim : victims) own_page(sequence, layer, static_cast<uint32_t>(victim) / n_rows);
    const Page& source = *cache.pages[page_index];
    const bool source_on_device = source.device_slot >= 0;
    const Tier& from = source_on_device ? device_tier_ : host_tier_;
    const int32_t from_slot = source_on_device ? source.device_slot : source.host_slot;
    RowMoves to_device, to_host;
    for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
        for (uint32_t i = 0; i < n_rows; ++i) {
            const auto victim = static_cast<uint64_t>(victims[head * n_rows + i]);
            const Page& target = *cache.pages[victim / n_rows];
            const uint64_t origin = row_offset(from, from_slot, head, i);
            // A page may be in both tiers; both copies stay the same.
            if (target.device_slot >= 0) {
                to_device.from.push_back(origin);
                to_device.to.push_back(row_offset(device_tier_, target.device_slot, head, victim));
            }
            if (target.host_slot >= 0) {
                to_host.from.push_back(origin);
                to_host.to.push_back(row_offset(host_tier_, target.host_slot, head, victim));
            }
            const int32_t entry = ResidentSet::find(cache, head, victim / layout_.group_tokens);
            if (entry >= 0) resident_.drop_page(cache, static_cast<uint32_t>(victim / n_rows));
        }
    }
    copy_rows(from, device_tier_, to_device);
    copy_rows(from, host_tier_, to_host);
    move_token_sidecars(sequence, layer, page_index, victims);
    remove_page(sequence, layer, page_index);
}

void KvStore::move_token_sidecars(SequenceCache& sequence, uint32_t layer, uint32_t page_index,
                                  std::span<const int32_t> victims) {
    const uint64_t n_rows = layout_.page_tokens;
    std::vector<kvp_copy_region> over;
    for (size_t i = 0; i < sidecars_.size(); ++i) {
        const SidecarSpec& spec = sidecars_[i];
        const kvp_address base = sequence.layers[layer].sidecars[i].address();
        if (base == 0 || spec.scope != KVP_SIDECAR_TOKEN) continue;
        for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
            const kvp_address row = base + head * sequence.sidecar_capacity(spec.scope) * spec.bytes;
            for (uint64_t j = 0; j < n_rows; ++j) {
                const auto victim = static_cast<uint64_t>(victims[head * n_rows + j]);
                over.push_back({row + (page_index * n_rows + j) * spec.bytes, row + victim * spec.bytes, spec.bytes});
            }
        }
    }
    device_.copy(over);
}

// TOKEN and PAGE sidecars of the page after `page_index` take its place.
void KvStore::move_sidecars_down(SequenceCache& sequence, uint32_t layer, uint32_t page_index) {
    std::vector<kvp_copy_region> down;
    for (size_t i = 0; i < sidecars_.size(); ++i) {
        const SidecarSpec& spec = sidecars_[i];
        const kvp_address base = sequence.layers[layer].sidecars[i].address();
        if (base == 0 || (spec.scope != KVP_SIDECAR_TOKEN && spec.scope != KVP_SIDECAR_PAGE)) continue;
        const uint64_t capacity = sequence.sidecar_capacity(spec.scope);
        const uint64_t unit = spec.scope == KVP_SIDECAR_TOKEN ? spec.bytes * layout_.page_tokens : spec.bytes;
        for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
            const kvp_address page = base + head * capacity * spec.bytes + page_index * unit;
            down.push_back({page + unit, page, unit});
        }
    }
    device_.copy(down);
}

void KvStore::remove_page(SequenceCache& sequence, uint32_t layer, uint32_t page_index) {
    LayerCache& cache = sequence.layers[layer];
    drop_page(sequence, layer, page_index);
    for (uint32_t index = page_index; index + 1 < sequence.n_pages; ++index) {
        const bool has_page = cache.pages[index + 1] != nullptr;
        if (!has_page && layout_.codec == nullptr) break;
        move_sidecars_down(sequence, layer, index);
        if (!has_page) continue;  // of rows that are not in pages yet
        resident_.drop_page(cache, index + 1);
        show_page({&sequence, index + 1}, layer, 0);
        cache.pages[index] = std::exchange(cache.pages[index + 1], nullptr);
        Page& moved = *cache.pages[index];
        std::replace(moved.users.begin(), moved.users.end(), Page::User{&sequence, index + 1},
                     Page::User{&sequence, index});
        show_page({&sequence, index}, layer, readable_address(moved));
    }
}

}  // namespace kvplane
