// Groups that were fetched into the device tier and stay there for the next steps, least recently used out first.
// It lives in page slots of the device tier that KvStore gives and takes.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/sequence_cache.h"
#include "memory/tier.h"

namespace kvplane {

class ResidentSet {
public:
    ResidentSet(const PageLayout& layout, const Tier& device) : layout_(layout), device_(device) {}

    // A page slot more, for groups_per_page() groups.
    void grow(int32_t slot);
    // Gives a page slot back, if one has no pinned group; empty otherwise. Its groups are forgotten.
    std::optional<int32_t> shrink();
    uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }

    // The entry of a group, -1: not here.
    static int32_t find(const LayerCache& layer, uint32_t kv_head, uint64_t group) {
        return layer.resident[kv_head * layer.groups.stride() + group];
    }
    // A place for a group, pinned; the least recently used one's if all are taken. -1: all are pinned.
    int32_t acquire(LayerCache& layer, uint32_t kv_head, uint64_t group);
    void pin(int32_t entry);
    void unpin(int32_t entry);
    // The bytes have come: from now on the device may read them.
    void publish(int32_t entry);
    uint64_t offset(int32_t entry) const;

    // Forgets the groups of a layer: all, or those of one page.
    void drop(LayerCache& layer);
    void drop_page(LayerCache& layer, uint32_t page);

private:
    struct Entry {
        LayerCache* layer = nullptr;  // null: free
        uint32_t kv_head = 0;
        uint64_t group = 0;
        uint32_t pins = 0;
        int32_t older = -1;
        int32_t newer = -1;
        int32_t slot = -1;   // page slot that it lies in, -1: given back
        uint32_t place = 0;  // within the page slot
    };

    Entry& at(int32_t entry) { return entries_[static_cast<size_t>(entry)]; }
    const Entry& at(int32_t entry) const { return entries_[static_cast<size_t>(entry)]; }
    void link_newest(int32_t entry);
    void unlink(int32_t entry);
    void forget(int32_t entry);

    const PageLayout& layout_;
    const Tier& device_;
    std::vector<int32_t> slots_;
    std::vector<Entry> entries_;
    std::vector<int32_t> free_;
    int32_t oldest_ = -1;
    int32_t newest_ = -1;
};

}  // namespace kvplane
