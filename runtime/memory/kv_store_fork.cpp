// Sequences that begin alike share pages; what one of them writes to, it gets a copy of first. A rewind gives the last
// page back to the writer.
#include <algorithm>

#include "base/error.h"
#include "memory/kv_store.h"

namespace kvplane {

SequenceCache* KvStore::fork(SequenceCache& parent, uint64_t id, uint64_t max_tokens) {
    uint64_t more = 0;
    for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
        const auto n_full = static_cast<uint32_t>(stored(parent, layer) / layout_.page_tokens);
        more += layout_.pages(max_tokens - static_cast<uint64_t>(parent.layers[layer].n_dropped));
        more -= options_.rewrites_pages ? 0 : n_full;
    }
    SequenceCache* made = admit(id, max_tokens, more);
    if (made == nullptr) return nullptr;
    made->n_cached = parent.n_cached;
    made->fixed_rows = parent.fixed_rows;
    try {
        for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
            const auto n_full = static_cast<uint32_t>(stored(parent, layer) / layout_.page_tokens);
            const bool has_partial = stored(parent, layer) % layout_.page_tokens != 0;
            made->layers[layer].n_dropped = parent.layers[layer].n_dropped;
            for (uint32_t index = 0; index < n_full + has_partial; ++index) {
                const PageRef& shared = parent.layers[layer].pages[index];
                shared->users.push_back({made, index});
                made->layers[layer].pages[index] = shared;
                show_page({made, index}, layer, readable_address(*shared));
            }
            if (has_partial) own_page(*made, layer, n_full);
        }
        if (layout_.codec != nullptr) copy_recent(parent, *made);
        copy_sidecars(parent, *made);
    } catch (...) {
        close(made);
        throw;
    }
    return made;
}

bool KvStore::can_rewind(const SequenceCache& sequence, int64_t n_rows) const {
    uint64_t more = 0;
    for (const LayerCache& layer : sequence.layers) {
        const auto first = static_cast<uint32_t>((n_rows - layer.n_dropped) / layout_.page_tokens);
        for (uint32_t index = first; index < sequence.n_pages && layer.pages[index] != nullptr; ++index) {
            more += !options_.rewrites_pages && layer.pages[index]->is_shared();
        }
    }
    return more == 0 || room_for(reserved_pages_ + more, sequences_.size()) != Room::none;
}

void KvStore::rewind(SequenceCache& sequence, int64_t n_rows) {
    while (!stores_.empty()) retire_stores(true);
    for (LayerCache& layer : sequence.layers) {
        for (Ticket& ticket : layer.tickets) {
            publish(ticket);
            release(ticket);
        }
        layer.tickets.clear();
    }
    std::vector<int64_t> left;  // of each layer, in pages
    for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
        left.push_back(std::min(stored(sequence, layer), n_rows - sequence.layers[layer].n_dropped));
    }
    truncate_pages(sequence, left);
    if (layout_.codec != nullptr) {
        const std::vector<int64_t> before = left;
        for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
            left[layer] = reopen_group(sequence, layer, n_rows - sequence.layers[layer].n_dropped);
        }
        if (left != before) truncate_pages(sequence, left);
    }
    clear_sidecars(sequence, n_rows);
    sequence.n_cached = n_rows;
}

// Leaves the pages of the first rows, n_rows of each layer. The last of them, if it is not full, becomes one to write to.
void KvStore::truncate_pages(SequenceCache& sequence, std::span<const int64_t> n_rows) {
    const auto pages_in = [&](uint32_t layer) { return layout_.pages(static_cast<uint64_t>(n_rows[layer])); };
    for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
        for (uint32_t index = pages_in(layer); index < sequence.n_pages; ++index) drop_page(sequence, layer, index);
    }
    const auto has_partial = [&](uint32_t layer) { return n_rows[layer] % layout_.page_tokens != 0; };
    uint64_t copies = 0;  // that reopening makes
    for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
        copies += has_partial(layer) && sequence.layers[layer].pages[pages_in(layer) - 1]->is_shared();
    }
    reserved_pages_ = count_reserved() + (options_.rewrites_pages ? 0 : copies);
    spills_ = room_for(reserved_pages_, sequences_.size()) == Room::by_spilling;
    share_slots();
    for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
        if (has_partial(layer)) reopen_page(sequence, layer, pages_in(layer) - 1);
    }
}

// `to` has a slot in the tier that `from` is read from, or in the device tier.
void KvStore::copy_page(const Page& from, const Page& to) {
    const kvp_address source = readable_address(from);
    if (source != 0 && readable_address(to) != 0) {
        const kvp_copy_region region{source, readable_address(to), layout_.page_bytes()};
        device_.copy({&region, 1});
        return;
    }
    const Tier& target = to.device_slot >= 0 ? device_tier_ : host_tier_;
    const uint64_t from_offset = host_tier_.offset(from.host_slot);
    const uint64_t to_offset = target.offset(to.device_slot >= 0 ? to.device_slot : to.host_slot);
    transfers_.wait(transfers_.submit(host_tier_, target, {&from_offset, 1}, {&to_offset, 1}, layout_.page_bytes(),
                                      KVP_PRIORITY_FOREGROUND));
}

// A page of the sequence's own in the place of one that others see as well: with the same bytes, in the same tier.
void KvStore::own_page(SequenceCache& sequence, uint32_t layer, uint32_t index) {
    const PageRef shared = sequence.layers[layer].pages[index];
    if (!shared->is_shared()) return;
    PageRef mine;
    if (readable_address(*shared) != 0) {
        ++shared->pins;  // room for the copy is not made at the cost of the original
        try {
            mine = new_page(sequence, layer, index);
        } catch (...) {
            --shared->pins;
            throw;
        }
        --shared->pins;
        mine->state = shared->state == PageState::filling ? PageState::filling : PageState::dirty;
    } else {
        mine = std::make_shared<Page>(*shared);
        mine->serial = ++last_page_;
        mine->pins = 0;
        mine->users = {{&sequence, index}};
        const auto slot = host_tier_.acquire(SlotUse::page);
        if (!slot) throw Error(ErrorKind::memory, "the host tier is full although its pages were reserved; a bug");
        mine->host_slot = *slot;
    }
    copy_page(*shared, *mine);
    resident_.drop_page(sequence.layers[layer], index);
    show_page({&sequence, index}, layer, readable_address(*mine));
    std::erase(shared->users, Page::User{&sequence, index});
    sequence.layers[layer].pages[index] = mine;
}

// The page that the sequence writes to next, which was full: its own, where the device writes, and nowhere else.
void KvStore::reopen_page(SequenceCache& sequence, uint32_t layer, uint32_t index) {
    own_page(sequence, layer, index);
    Page& page = *sequence.layers[layer].pages[index];
    if (!options_.in_place && page.device_slot < 0) {
        Page loaded = page;
        loaded.device_slot = acquire_device_slot(SlotUse::page);
        copy_page(page, loaded);
        page.device_slot = loaded.device_slot;
        resident_.drop_page(sequence.layers[layer], index);
    }
    while (page.state == PageState::storing) retire_stores(true);
    if (!options_.in_place && page.host_slot >= 0) {
        evictable_.erase(eviction_key(page));
        host_tier_.release(page.host_slot);
        page.host_slot = -1;
    }
    page.state = PageState::filling;
    show_page({&sequence, index}, layer, readable_address(page));
}

// What grows with the rows as far as there are rows, the rest whole.
void KvStore::copy_sidecars(const SequenceCache& from, SequenceCache& to) {
    std::vector<kvp_copy_region> copies;
    for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
        const auto n_rows = static_cast<uint64_t>(from.n_rows(layer));
        for (size_t i = 0; i < sidecars_.size(); ++i) {
            const SidecarSpec& spec = sidecars_[i];
            const kvp_address source = from.layers[layer].sidecars[i].address();
            const kvp_address target = to.layers[layer].sidecars[i].address();
            if (source == 0) continue;
            uint64_t units = 1;
            if (spec.scope == KVP_SIDECAR_TOKEN) units = n_rows;
            if (spec.scope == KVP_SIDECAR_PAGE) units = layout_.pages(n_rows);
            const uint32_t heads = spec.scope == KVP_SIDECAR_LAYER ? 1 : layout_.kv_heads;
            for (uint32_t head = 0; units > 0 && head < heads; ++head) {
                copies.push_back({source + head * from.sidecar_capacity(spec.scope) * spec.bytes,
                                  target + head * to.sidecar_capacity(spec.scope) * spec.bytes, units * spec.bytes});
            }
        }
    }
    device_.copy(copies);
}

void KvStore::clear_sidecars(SequenceCache& sequence, int64_t n_cached) {
    for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
        const int64_t n_dropped = sequence.layers[layer].n_dropped;
        clear_sidecars(sequence, layer, n_cached - n_dropped, sequence.n_rows(layer));
    }
}

// TOKEN sidecars of rows [begin, end), PAGE sidecars of pages that begin there.
void KvStore::clear_sidecars(SequenceCache& sequence, uint32_t at_layer, int64_t from, int64_t to) {
    const LayerCache& layer = sequence.layers[at_layer];
    const auto first_row = static_cast<uint64_t>(from);
    const auto n_rows = static_cast<uint64_t>(to);
    const std::vector<std::byte> zeros(1 << 16);
    const auto clear = [&](kvp_address begin, kvp_address end) {
        while (begin < end) {
            const uint64_t bytes = std::min<uint64_t>(zeros.size(), end - begin);
            device_.upload(begin, zeros.data(), bytes);
            begin += bytes;
        }
    };
    for (size_t i = 0; i < sidecars_.size(); ++i) {
        const SidecarSpec& spec = sidecars_[i];
        const kvp_address base = layer.sidecars[i].address();
        const bool by_row = spec.scope == KVP_SIDECAR_TOKEN;
        if (base == 0 || (!by_row && spec.scope != KVP_SIDECAR_PAGE)) continue;
        const uint64_t begin = by_row ? first_row : layout_.pages(first_row);
        const uint64_t end = by_row ? n_rows : layout_.pages(n_rows);
        for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
            const kvp_address first = base + head * sequence.sidecar_capacity(spec.scope) * spec.bytes;
            clear(first + begin * spec.bytes, first + end * spec.bytes);
        }
    }
}

}  // namespace kvplane
