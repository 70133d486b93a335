#include "memory/sequence_cache.h"

namespace kvplane {

GroupTable::GroupTable(Device& device, uint32_t kv_heads, uint64_t stride)
    : stride_(stride), entries_(kv_heads * stride, 0) {
    if (!device.reads_host_memory() && !entries_.empty())
        copy_ = Buffer(device, entries_.size() * sizeof(kvp_address), "group table");
}

kvp_address GroupTable::address(Device& device) {
    if (copy_.address() == 0) return reinterpret_cast<kvp_address>(entries_.data());
    if (changed_) device.upload(copy_.address(), entries_.data(), entries_.size() * sizeof(kvp_address));
    changed_ = false;
    return copy_.address();
}

LayerCache::LayerCache(Device& device, const PageLayout& layout, uint32_t n_pages, uint64_t stride)
    : pages(n_pages),
      groups(device, layout.kv_heads, stride),
      shown(device, layout.codec != nullptr ? layout.kv_heads : 0, stride),
      resident(layout.kv_heads * stride, -1) {
    if (layout.codec == nullptr) return;
    const uint64_t bytes = uint64_t{layout.kv_heads} * layout.recent_groups * layout.shown_group_bytes();
    recent = Buffer(device, bytes, "recent rows");
}

SequenceCache::SequenceCache(Device& device, const PageLayout& layout, uint64_t sequence_id, uint64_t tokens,
                             const std::vector<SidecarSpec>& specs)
    : id(sequence_id), max_tokens(tokens), n_pages(layout.pages(tokens)) {
    const uint64_t stride = uint64_t{n_pages} * layout.groups_per_head();
    const std::vector<std::byte> zeros(1 << 16);
    for (uint32_t layer = 0; layer < layout.layers; ++layer) {
        layers.emplace_back(device, layout, n_pages, stride);
        for (const SidecarSpec& spec : specs) {
            if (layer < spec.first_layer) {
                layers.back().sidecars.emplace_back();
                continue;
            }
            const uint64_t heads = spec.scope == KVP_SIDECAR_LAYER ? 1 : layout.kv_heads;
            const uint64_t bytes = spec.bytes * heads * sidecar_capacity(spec.scope);
            Buffer buffer(device, bytes, "sidecar " + spec.name);
            for (uint64_t at = 0; at < bytes; at += zeros.size()) {
                device.upload(buffer.address() + at, zeros.data(), std::min<uint64_t>(zeros.size(), bytes - at));
            }
            sidecar_bytes += bytes;
            layers.back().sidecars.push_back(std::move(buffer));
        }
    }
}

uint64_t SequenceCache::sidecar_capacity(uint32_t scope) const {
    if (scope == KVP_SIDECAR_TOKEN) return max_tokens;
    if (scope == KVP_SIDECAR_PAGE) return n_pages;
    return 1;
}

}  // namespace kvplane
