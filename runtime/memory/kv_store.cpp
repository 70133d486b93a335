#include "memory/kv_store.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace kvplane {

namespace {

std::string bytes_text(uint64_t bytes) {
    return std::to_string(bytes) + " bytes";
}

uint32_t slots_of(const char* tier, uint64_t bytes, const PageLayout& layout, const KvStoreOptions& options) {
    const uint64_t useful = options.most_pages + options.staging_pages + 4;
    const uint64_t slots = std::min(bytes / layout.page_bytes(), useful);
    if (slots == 0) {
        throw Error(ErrorKind::memory, std::string("tiers.") + tier + ".kv_bytes is " + bytes_text(bytes) +
                                           ", less than one page of " + std::to_string(layout.page_tokens) +
                                           " tokens, " + bytes_text(layout.page_bytes()) +
                                           "; raise it, or lower memory.page_tokens");
    }
    return static_cast<uint32_t>(std::min<uint64_t>(slots, INT32_MAX));
}

}  // namespace

KvStore::KvStore(Device& device, Transfers& transfers, const PageLayout& layout, const KvStoreOptions& options,
                 std::vector<SidecarSpec> sidecars)
    : device_(device),
      transfers_(transfers),
      layout_(layout),
      options_(options),
      sidecars_(std::move(sidecars)),
      device_memory_(device, slots_of("device", options.device_bytes, layout, options) * layout.page_bytes(),
                     "KV pages"),
      host_memory_(
          options.host_bytes == 0 ? 0 : slots_of("host", options.host_bytes, layout, options) * layout.page_bytes()),
      device_tier_("device", KVP_TIER_DEVICE, device_memory_.address(), layout.page_bytes(),
                   slots_of("device", options.device_bytes, layout, options)),
      host_tier_("host", KVP_TIER_HOST, host_memory_.address(), layout.page_bytes(),
                 options.host_bytes == 0 ? 0 : slots_of("host", options.host_bytes, layout, options)),
      resident_(layout_, device_tier_) {
    transfers_.add_tier(device_tier_);
    if (host_tier_.capacity() > 0) transfers_.add_tier(host_tier_);
}

KvStore::~KvStore() {
    transfers_.settle_all();
    while (!sequences_.empty()) close(&sequences_.front());
}

uint64_t KvStore::sidecar_bytes() const {
    uint64_t sum = 0;
    for (const SequenceCache& sequence : sequences_) sum += sequence.sidecar_bytes;
    return sum;
}

SequenceCache* KvStore::open(uint64_t id, uint64_t max_tokens) {
    const uint64_t pages = uint64_t{layout_.pages(max_tokens)} * layout_.layers;
    const uint64_t device = device_tier_.capacity();
    const uint64_t host = host_tier_.capacity();
    // Copying: a page being filled in every layer, one more in the layer that writes, two to stage, one for groups.
    const uint64_t floor = options_.in_place ? 0 : uint64_t{layout_.layers} + 4;
    const bool alone_fits =
        options_.in_place ? pages <= device + host : pages + 2 <= device || (pages <= host && floor <= device);
    if (!alone_fits) {
        throw Error(ErrorKind::memory,
                    "a text of " + std::to_string(max_tokens) + " tokens needs " +
                        bytes_text(pages * layout_.page_bytes()) + " of KV; the budgets are " +
                        bytes_text(device_tier_.budget_bytes()) + " (device, at least " +
                        bytes_text(floor * layout_.page_bytes()) + " when it has to spill) and " +
                        bytes_text(host_tier_.budget_bytes()) +
                        " (host); raise tiers.device.kv_bytes or tiers.host.kv_bytes, or shorten the text");
    }
    const uint64_t total = reserved_pages_ + pages;
    const uint64_t open_sequences = sequences_.size() + 1;
    const bool device_holds_all = total + (options_.in_place ? 0 : 2) <= device;
    // Once pages are away, reading has to fetch until the last sequence that may have some has ended.
    const bool spills = !options_.in_place && (!device_holds_all || (spills_ && !sequences_.empty()));
    if (options_.in_place && total > device + host) return nullptr;
    if (spills && (total > host || open_sequences * layout_.layers + 4 > device)) return nullptr;
    SequenceCache& opened = sequences_.emplace_back(device_, layout_, id, max_tokens, sidecars_);
    peak_sidecar_bytes_ = std::max(peak_sidecar_bytes_, sidecar_bytes());
    reserved_pages_ = total;
    spills_ = spills;
    try {
        share_slots();
    } catch (...) {
        close(&opened);
        throw;
    }
    return &opened;
}

// Staging and the resident set take what the pages being written leave; nothing while nothing spills.
void KvStore::share_slots() {
    uint64_t staging = 0;
    if (spills_) {
        const uint64_t left = device_tier_.capacity() - sequences_.size() * layout_.layers - 2;
        staging = std::clamp<uint64_t>(options_.staging_pages, 2, std::max<uint64_t>(2, left / 2));
    }
    while (staging_.size() > staging) {
        device_tier_.release(staging_.back());
        staging_.pop_back();
    }
    const uint64_t resident = spills_ ? room_for_resident() : 0;
    while (resident_.slots() > resident) {
        const auto slot = resident_.shrink();
        if (!slot) break;
        device_tier_.release(*slot);
    }
    while (staging_.size() < staging) staging_.push_back(acquire_device_slot(SlotUse::staging));
    if (spills_ && resident_.slots() == 0) resident_.grow(acquire_device_slot(SlotUse::resident));
}

void KvStore::close(SequenceCache* sequence) {
    for (const Store& store : stores_) transfers_.settle(store.transfer);
    while (!stores_.empty()) end_store();
    for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
        LayerCache& cache = sequence->layers[layer];
        for (Ticket& ticket : cache.tickets) {
            transfers_.settle(ticket.transfer);
            release(ticket);
        }
        resident_.drop(cache);
        for (uint32_t index = 0; index < sequence->n_pages; ++index) {
            const Page& held = cache.pages[index];
            evictable_.erase(eviction_key({sequence, layer, index}));
            if (held.device_slot >= 0) device_tier_.release(held.device_slot);
            if (held.host_slot >= 0) host_tier_.release(held.host_slot);
        }
    }
    reserved_pages_ -= uint64_t{sequence->n_pages} * layout_.layers;
    sequences_.remove_if([&](const SequenceCache& other) { return &other == sequence; });
}

uint64_t KvStore::room_for_resident() const {
    const uint64_t fixed = staging_.size() + sequences_.size() * layout_.layers + 1;
    const uint64_t left = device_tier_.capacity() > fixed ? device_tier_.capacity() - fixed : 0;
    const auto wanted = static_cast<uint64_t>(options_.resident_share * static_cast<double>(reserved_pages_) + 1);
    // At least half of what is left stays for pages, so that chunks can be long.
    return std::clamp<uint64_t>(wanted, 1, std::max<uint64_t>(1, left / 2));
}

uint64_t KvStore::max_step_tokens() const {
    if (!spills_) return UINT64_MAX;
    const uint64_t fixed = staging_.size() + sequences_.size() * layout_.layers + room_for_resident();
    const uint64_t left = device_tier_.capacity() > fixed ? device_tier_.capacity() - fixed : 1;
    return left * layout_.page_tokens;
}

KvStore::EvictionKey KvStore::eviction_key(const PageId& id) const {
    return {id.layer < options_.resident_layers, id.index, id.layer, id.sequence->id, id.sequence};
}

void KvStore::show_page(const PageId& id, kvp_address address) {
    GroupTable& groups = id.sequence->layers[id.layer].groups;
    const uint32_t per_head = layout_.groups_per_head();
    for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
        for (uint32_t i = 0; i < per_head; ++i) {
            groups.set(head, uint64_t{id.index} * per_head + i,
                       address == 0 ? 0 : address + layout_.group_offset(head, i));
        }
    }
}

int32_t KvStore::acquire_device_slot(SlotUse use) {
    for (;;) {
        if (const auto slot = device_tier_.acquire(use)) return *slot;
        retire_stores(false);
        if (evict_one()) continue;
        if (!stores_.empty()) {
            retire_stores(true);
            continue;
        }
        if (const auto slot = resident_.slots() > 1 ? resident_.shrink() : std::nullopt) {
            device_tier_.release(*slot);
            continue;
        }
        throw Error(ErrorKind::memory, "the device tier's " + std::to_string(device_tier_.capacity()) +
                                           " pages are all in use (" +
                                           std::to_string(device_tier_.count(SlotUse::page)) +
                                           " by rows being written); raise tiers.device.kv_bytes");
    }
}

bool KvStore::evict_one() {
    for (auto key = evictable_.begin(); key != evictable_.end(); ++key) {
        const PageId id{std::get<4>(*key), std::get<2>(*key), std::get<1>(*key)};
        Page& victim = page(id);
        if (victim.pins > 0) continue;
        evictable_.erase(key);
        show_page(id, 0);
        device_.synchronise();  // reader -> reuse of the slot
        device_tier_.release(victim.device_slot);
        victim.device_slot = -1;
        victim.state = PageState::away;
        return true;
    }
    if (!spills_ || !stores_.empty()) return false;
    // Pages that filled while everything still fitted have no copy in the host tier yet.
    std::vector<PageId> unsaved;
    for (SequenceCache& sequence : sequences_) {
        for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
            for (uint32_t index = 0; index < sequence.n_pages; ++index) {
                if (sequence.layers[layer].pages[index].state == PageState::dirty) {
                    unsaved.push_back({&sequence, layer, index});
                }
            }
        }
    }
    if (unsaved.empty()) return false;
    store_pages(std::move(unsaved));
    return false;
}

void KvStore::store_pages(std::vector<PageId> pages) {
    std::vector<uint64_t> from, to;
    for (const PageId& id : pages) {
        Page& stored = page(id);
        const auto slot = host_tier_.acquire(SlotUse::page);
        if (!slot) throw Error(ErrorKind::memory, "the host tier is full although its pages were reserved; a bug");
        stored.host_slot = *slot;
        stored.state = PageState::storing;
        from.push_back(device_tier_.offset(stored.device_slot));
        to.push_back(host_tier_.offset(*slot));
    }
    const TransferId transfer =
        transfers_.submit(device_tier_, host_tier_, from, to, layout_.page_bytes(), KVP_PRIORITY_STORE);
    stores_.push_back({transfer, std::move(pages)});
}

void KvStore::retire_stores(bool wait_for_one) {
    while (!stores_.empty()) {
        const TransferId transfer = stores_.front().transfer;
        try {
            if (wait_for_one) {
                transfers_.wait(transfer);
                wait_for_one = false;
            } else if (!transfers_.done(transfer)) {
                return;
            }
        } catch (const Error&) {
            if (transfers_.failed(transfer)) end_store();
            throw;
        }
        end_store();
    }
}

// The oldest store has ended. If it failed, its copies are gone and the pages are where they were.
void KvStore::end_store() {
    const bool failed = transfers_.failed(stores_.front().transfer);
    for (const PageId& id : stores_.front().pages) {
        Page& stored = page(id);
        if (failed) {
            host_tier_.release(stored.host_slot);
            stored.host_slot = -1;
            stored.state = PageState::dirty;
        } else {
            stored.state = PageState::clean;
            evictable_.insert(eviction_key(id));
        }
    }
    stores_.pop_front();
}

void KvStore::begin_write(SequenceCache& sequence, uint32_t layer, int64_t n_rows) {
    const auto first = static_cast<uint32_t>(sequence.n_cached / layout_.page_tokens);
    const auto last = static_cast<uint32_t>((sequence.n_cached + n_rows - 1) / layout_.page_tokens);
    if (last >= sequence.n_pages) {
        throw Error(ErrorKind::runtime, "sequence " + std::to_string(sequence.id) + " grows past its " +
                                            std::to_string(sequence.max_tokens) + " tokens");
    }
    for (uint32_t index = first; index <= last; ++index) {
        Page& written = sequence.layers[layer].pages[index];
        if (written.state != PageState::empty) continue;
        const PageId id{&sequence, layer, index};
        if (options_.in_place) {
            if (const auto slot = device_tier_.acquire(SlotUse::page)) {
                written.device_slot = *slot;
                show_page(id, device_tier_.address(*slot));
            } else {
                written.host_slot = host_tier_.acquire(SlotUse::page).value();
                show_page(id, host_tier_.address(written.host_slot));
            }
        } else {
            written.device_slot = acquire_device_slot(SlotUse::page);
            show_page(id, device_tier_.address(written.device_slot));
        }
        written.state = PageState::filling;
    }
}

void KvStore::end_layer(SequenceCache& sequence, uint32_t layer, int64_t n_rows) {
    const auto first = static_cast<uint32_t>(sequence.n_cached / layout_.page_tokens);
    const auto full = static_cast<uint32_t>((sequence.n_cached + n_rows) / layout_.page_tokens);
    std::vector<PageId> filled;
    for (uint32_t index = first; index < full; ++index) {
        sequence.layers[layer].pages[index].state = PageState::dirty;
        filled.push_back({&sequence, layer, index});
    }
    if (spills_ && !filled.empty()) store_pages(std::move(filled));
    for (Ticket& ticket : sequence.layers[layer].tickets) release(ticket);
    sequence.layers[layer].tickets.clear();
}

void KvStore::commit(SequenceCache& sequence, int64_t n_rows) {
    sequence.n_cached += n_rows;
    retire_stores(false);
}

kvp_rows KvStore::rows(SequenceCache& sequence, uint32_t layer) {
    kvp_rows made{};
    made.head.struct_size = sizeof(made);
    made.groups = sequence.layers[layer].groups.address(device_);
    made.groups_stride = sequence.layers[layer].groups.stride();
    made.n_kv_heads = layout_.kv_heads;
    made.head_size = layout_.head_size;
    made.group_tokens = layout_.group_tokens;
    made.type = layout_.type;
    return made;
}

void KvStore::verify() const {
    device_tier_.verify();
    host_tier_.verify();
    uint32_t device_pages = 0, host_pages = 0;
    for (const SequenceCache& sequence : sequences_) {
        for (const LayerCache& layer : sequence.layers) {
            for (const Page& held : layer.pages) {
                device_pages += held.device_slot >= 0;
                host_pages += held.host_slot >= 0;
            }
        }
    }
    if (device_pages != device_tier_.count(SlotUse::page) || host_pages != host_tier_.count(SlotUse::page) ||
        staging_.size() != device_tier_.count(SlotUse::staging) ||
        resident_.slots() != device_tier_.count(SlotUse::resident)) {
        throw Error(ErrorKind::runtime, "page slots were lost; this is a bug");
    }
}

}  // namespace kvplane
