// The cache of one sequence: its pages in all layers, the table of where the device finds each group, its sidecars.
// Data only; KvStore moves it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "kvplane/kv.h"
#include "memory/page_layout.h"
#include "memory/transfers.h"

namespace kvplane {

struct SequenceCache;

// Of the copy that the device reads.
enum class PageState : uint8_t {
    filling,  // being written, not full
    dirty,    // full, and nowhere else
    storing,  // full, a copy to the host tier is under way; still readable
    clean,    // full, the host tier has the same bytes
    away,     // only in the host tier
};

// Sequences that were forked share the pages that they have in common. What is shared is not written to: who wants to
// write takes a copy first (KvStore::own_page).
struct Page {
    struct User {
        SequenceCache* sequence;
        uint32_t index;  // among its pages of this layer

        bool operator==(const User&) const = default;
    };

    uint32_t layer = 0;
    uint32_t birth_index = 0;  // of its first user, and a serial number: what is old leaves the device first
    uint64_t serial = 0;
    int32_t device_slot = -1;
    int32_t host_slot = -1;
    PageState state = PageState::filling;
    uint32_t pins = 0;  // readers that rely on the device copy: not to be evicted
    std::vector<User> users;

    bool is_shared() const { return users.size() > 1; }
    // One of its users counts for all: the first.
    bool is_counted_by(const SequenceCache& sequence, uint32_t index) const {
        return users.front().sequence == &sequence && users.front().index == index;
    }
};

// Addresses of groups, [kv_head][stride], kept on the host and shown to the device.
class GroupTable {
public:
    GroupTable(Device& device, uint32_t kv_heads, uint64_t stride);

    void set(uint32_t kv_head, uint64_t group, kvp_address address) {
        entries_[kv_head * stride_ + group] = address;
        changed_ = true;
    }
    kvp_address get(uint32_t kv_head, uint64_t group) const { return entries_[kv_head * stride_ + group]; }
    uint64_t stride() const { return stride_; }
    // Where the device reads the table, brought up to date.
    kvp_address address(Device& device);

private:
    uint64_t stride_;
    std::vector<kvp_address> entries_;
    Buffer copy_;  // empty on a device that reads host memory
    bool changed_ = true;
};

// A fetch that was started ahead of the attention of its layer.
struct Ticket {
    uint64_t id = 0;
    TransferId transfer = 0;
    std::vector<int32_t> loading;  // entries of the resident set that become readable with it
    std::vector<int32_t> pinned;   // all entries of the resident set that it relies on
    std::vector<Page*> pinned_pages;
};

struct SidecarSpec {
    std::string name;
    uint32_t scope;
    uint32_t first_layer;
    uint64_t bytes;
};

struct LayerCache {
    LayerCache(Device& device, const PageLayout& layout, uint32_t n_pages, uint64_t stride);

    std::vector<std::shared_ptr<Page>> pages;  // null: no token yet
    GroupTable groups;                         // of what is stored
    // With a codec that the device does not know:
    GroupTable shown;               // what ops see: recent rows, and others while they are decoded
    Buffer recent;                  // [kv_head][recent_groups], a ring of groups that are not encoded yet
    int64_t n_encoded = 0;          // rows in pages
    std::vector<int32_t> resident;  // [kv_head][stride]: entry of the resident set, -1: none
    std::vector<Ticket> tickets;
    std::vector<Buffer> sidecars;
    int64_t n_dropped = 0;  // rows that left this layer alone
};

struct SequenceCache {
    SequenceCache(Device& device, const PageLayout& layout, uint64_t id, uint64_t max_tokens,
                  const std::vector<SidecarSpec>& sidecars);

    uint64_t id;
    uint64_t max_tokens;
    int64_t n_cached = 0;    // rows before this step, of a layer that has dropped none
    int64_t fixed_rows = 0;  // the first rows, which replaced others or moved: a rewind cannot go below them
    uint32_t n_pages;        // a layer
    std::vector<LayerCache> layers;
    uint64_t sidecar_bytes = 0;

    // Of one layer, before this step.
    int64_t n_rows(uint32_t layer) const { return n_cached - layers[layer].n_dropped; }

    uint64_t sidecar_capacity(uint32_t scope) const;
};

}  // namespace kvplane
