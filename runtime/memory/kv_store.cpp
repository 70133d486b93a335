#include "memory/kv_store.h"

#include <algorithm>
#include <string>
#include <utility>

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
    const bool alone_fits = options_.in_place
                                ? pages <= device + host
                                : (!options_.lower_tier && pages + 2 <= device) || (pages <= host && floor <= device);
    if (!alone_fits) {
        throw Error(ErrorKind::memory,
                    "a text of " + std::to_string(max_tokens) + " tokens needs " +
                        bytes_text(pages * layout_.page_bytes()) + " of KV; the budgets are " +
                        bytes_text(device_tier_.budget_bytes()) + " (device, at least " +
                        bytes_text(floor * layout_.page_bytes()) + " when it has to spill) and " +
                        bytes_text(host_tier_.budget_bytes()) +
                        " (host); raise tiers.device.kv_bytes or tiers.host.kv_bytes, or shorten the text");
    }
    return admit(id, max_tokens, pages);
}

KvStore::Room KvStore::room_for(uint64_t pages, uint64_t n_sequences) const {
    const uint64_t device = device_tier_.capacity();
    const uint64_t host = host_tier_.capacity();
    if (options_.in_place) return pages <= device + host ? Room::without_spilling : Room::none;
    // Once pages are away, reading has to fetch until the last sequence that may have some has ended.
    if (!options_.lower_tier && pages + 2 <= device && (!spills_ || sequences_.empty())) return Room::without_spilling;
    return pages <= host && n_sequences * layout_.layers + 4 <= device ? Room::by_spilling : Room::none;
}

SequenceCache* KvStore::admit(uint64_t id, uint64_t max_tokens, uint64_t more_pages) {
    const Room room = room_for(reserved_pages_ + more_pages, sequences_.size() + 1);
    if (room == Room::none) return nullptr;
    SequenceCache& opened = sequences_.emplace_back(device_, layout_, id, max_tokens, sidecars_);
    peak_sidecar_bytes_ = std::max(peak_sidecar_bytes_, sidecar_bytes());
    reserved_pages_ += more_pages;
    spills_ = room == Room::by_spilling;
    try {
        share_slots();
    } catch (...) {
        close(&opened);
        throw;
    }
    return &opened;
}

// Pages that open sequences may grow to. One that several share is there once, unless each may come to write to it.
uint64_t KvStore::count_reserved() const {
    uint64_t pages = 0;
    for (const SequenceCache& sequence : sequences_) {
        for (const LayerCache& layer : sequence.layers) {
            pages += layout_.pages(sequence.max_tokens - static_cast<uint64_t>(layer.n_dropped));
            if (options_.rewrites_pages) continue;
            for (uint32_t index = 0; index < sequence.n_pages && layer.pages[index] != nullptr; ++index) {
                pages -= !layer.pages[index]->is_counted_by(sequence, index);
            }
        }
    }
    return pages;
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
        for (Ticket& ticket : sequence->layers[layer].tickets) {
            transfers_.settle(ticket.transfer);
            release(ticket);
        }
        resident_.drop(sequence->layers[layer]);
        for (uint32_t index = 0; index < sequence->n_pages; ++index) drop_page(*sequence, layer, index);
    }
    sequences_.remove_if([&](const SequenceCache& other) { return &other == sequence; });
    reserved_pages_ = count_reserved();
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

KvStore::EvictionKey KvStore::eviction_key(Page& page) const {
    return {page.layer < options_.resident_layers, page.birth_index, page.layer, page.serial, &page};
}

void KvStore::show_page(const Page::User& user, uint32_t layer, kvp_address address) {
    GroupTable& groups = user.sequence->layers[layer].groups;
    const uint32_t per_head = layout_.groups_per_head();
    for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
        for (uint32_t i = 0; i < per_head; ++i) {
            groups.set(head, uint64_t{user.index} * per_head + i,
                       address == 0 ? 0 : address + layout_.group_offset(head, i));
        }
    }
}

// Where the device reads a page, 0 when it is away.
kvp_address KvStore::readable_address(const Page& page) const {
    if (page.device_slot >= 0) return device_tier_.address(page.device_slot);
    return options_.in_place ? host_tier_.address(page.host_slot) : 0;
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
        Page& victim = *std::get<Page*>(*key);
        if (victim.pins > 0) continue;
        evictable_.erase(key);
        for (const Page::User& user : victim.users) show_page(user, victim.layer, 0);
        device_.synchronise();  // reader -> reuse of the slot
        device_tier_.release(victim.device_slot);
        victim.device_slot = -1;
        victim.state = PageState::away;
        return true;
    }
    if (!spills_ || !stores_.empty()) return false;
    // Pages that filled while everything still fitted have no copy in the host tier yet.
    std::vector<PageRef> unsaved;
    for (SequenceCache& sequence : sequences_) {
        for (const LayerCache& layer : sequence.layers) {
            for (uint32_t index = 0; index < sequence.n_pages && layer.pages[index] != nullptr; ++index) {
                const PageRef& held = layer.pages[index];
                if (held->state == PageState::dirty && held->is_counted_by(sequence, index)) unsaved.push_back(held);
            }
        }
    }
    if (unsaved.empty()) return false;
    store_pages(std::move(unsaved));
    return false;
}

void KvStore::store_pages(std::vector<PageRef> pages) {
    std::vector<uint64_t> from, to;
    for (const PageRef& stored : pages) {
        const auto slot = host_tier_.acquire(SlotUse::page);
        if (!slot) throw Error(ErrorKind::memory, "the host tier is full although its pages were reserved; a bug");
        stored->host_slot = *slot;
        stored->state = PageState::storing;
        from.push_back(device_tier_.offset(stored->device_slot));
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
    for (const PageRef& stored : stores_.front().pages) {
        if (failed) {
            host_tier_.release(stored->host_slot);
            stored->host_slot = -1;
            stored->state = PageState::dirty;
        } else {
            stored->state = PageState::clean;
            evictable_.insert(eviction_key(*stored));
        }
    }
    stores_.pop_front();
}

void KvStore::begin_write(SequenceCache& sequence, uint32_t layer, int64_t n_rows) {
    const int64_t begin = sequence.n_rows(layer);
    const int64_t end = begin + n_rows;
    if (end > int64_t{sequence.n_pages} * layout_.page_tokens) {
        throw Error(ErrorKind::runtime, "sequence " + std::to_string(sequence.id) + " grows past its " +
                                            std::to_string(sequence.max_tokens) + " tokens");
    }
    if (layout_.codec != nullptr) {
        show_recent(sequence.layers[layer], begin, end);
    } else {
        take_pages(sequence, layer, begin, end);
    }
}

// Pages for rows [begin, end), as far as they are not there.
void KvStore::take_pages(SequenceCache& sequence, uint32_t layer, int64_t begin, int64_t end) {
    const auto first = static_cast<uint32_t>(begin / layout_.page_tokens);
    const auto last = static_cast<uint32_t>((end - 1) / layout_.page_tokens);
    for (uint32_t index = first; index <= last; ++index) {
        PageRef& written = sequence.layers[layer].pages[index];
        if (written == nullptr) written = new_page(sequence, layer, index);
    }
}

// An empty page where new rows go to, shown to the sequence.
KvStore::PageRef KvStore::new_page(SequenceCache& sequence, uint32_t layer, uint32_t index) {
    auto made = std::make_shared<Page>();
    made->layer = layer;
    made->birth_index = index;
    made->serial = ++last_page_;
    made->users = {{&sequence, index}};
    if (!options_.in_place) {
        made->device_slot = acquire_device_slot(SlotUse::page);
    } else if (const auto slot = options_.lower_tier ? std::nullopt : device_tier_.acquire(SlotUse::page)) {
        made->device_slot = *slot;
    } else if (const auto below = host_tier_.acquire(SlotUse::page)) {
        made->host_slot = *below;
    } else {
        made->device_slot = device_tier_.acquire(SlotUse::page).value();
    }
    show_page(made->users.front(), layer, readable_address(*made));
    return made;
}

// A sequence does without a page; the last one takes its slots back.
void KvStore::drop_page(SequenceCache& sequence, uint32_t layer, uint32_t index) {
    const PageRef held = std::exchange(sequence.layers[layer].pages[index], nullptr);
    if (held == nullptr) return;
    resident_.drop_page(sequence.layers[layer], index);
    show_page({&sequence, index}, layer, 0);
    std::erase(held->users, Page::User{&sequence, index});
    if (!held->users.empty()) return;
    evictable_.erase(eviction_key(*held));
    if (held->device_slot >= 0) device_tier_.release(held->device_slot);
    if (held->host_slot >= 0) host_tier_.release(held->host_slot);
}

void KvStore::end_layer(SequenceCache& sequence, uint32_t layer, int64_t n_rows) {
    // Rows may have left during the step, even some of its own.
    const int64_t before = std::max<int64_t>(stored(sequence, layer), 0);
    const int64_t after = stored_after(sequence, layer, n_rows);
    if (layout_.codec != nullptr) encode(sequence, layer, after);
    const auto first = static_cast<uint32_t>(before / layout_.page_tokens);
    const auto full = static_cast<uint32_t>(after / layout_.page_tokens);
    end_pages(sequence, layer, first, full);
    for (Ticket& ticket : sequence.layers[layer].tickets) release(ticket);
    sequence.layers[layer].tickets.clear();
}

// Of pages [first, end) those that were being filled are full.
void KvStore::end_pages(SequenceCache& sequence, uint32_t layer, uint32_t first, uint32_t end) {
    std::vector<PageRef> filled;
    for (uint32_t index = first; index < end; ++index) {
        const PageRef& page = sequence.layers[layer].pages[index];
        if (page->state != PageState::filling) continue;
        page->state = PageState::dirty;
        filled.push_back(page);
    }
    if (spills_ && !filled.empty()) store_pages(std::move(filled));
}

void KvStore::commit(SequenceCache& sequence, int64_t n_rows) {
    sequence.n_cached += n_rows;
    retire_stores(false);
    if (!options_.lower_tier) return;
    while (!stores_.empty())
        retire_stores(true);  // what a step reads is then the same whatever the transfers' threads do
    while (!evictable_.empty() && evict_one()) {
    }
}

kvp_rows KvStore::rows(SequenceCache& sequence, uint32_t layer) {
    kvp_rows made{};
    made.head.struct_size = sizeof(made);
    LayerCache& cache = sequence.layers[layer];
    GroupTable& groups = layout_.codec != nullptr ? cache.shown : cache.groups;
    made.groups = groups.address(device_);
    made.groups_stride = groups.stride();
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
    size_t held = 0, users = 0;
    for (const SequenceCache& sequence : sequences_) {
        for (const LayerCache& layer : sequence.layers) {
            for (uint32_t index = 0; index < sequence.n_pages && layer.pages[index] != nullptr; ++index) {
                const Page& page = *layer.pages[index];
                ++held;
                if (!page.is_counted_by(sequence, index)) continue;
                users += page.users.size();
                device_pages += page.device_slot >= 0;
                host_pages += page.host_slot >= 0;
            }
        }
    }
    if (held != users) throw Error(ErrorKind::runtime, "a page's users were miscounted; this is a bug");
    if (device_pages != device_tier_.count(SlotUse::page) || host_pages != host_tier_.count(SlotUse::page) ||
        staging_.size() != device_tier_.count(SlotUse::staging) ||
        resident_.slots() != device_tier_.count(SlotUse::resident)) {
        throw Error(ErrorKind::runtime, "page slots were lost; this is a bug");
    }
}

}  // namespace kvplane
