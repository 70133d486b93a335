// How attention gets to see rows that are not where the device reads them.
#include <algorithm>

#include "base/error.h"
#include "memory/kv_store.h"

namespace kvplane {

namespace {

// A range of at most this many groups comes by groups into the resident set; a longer one by whole pages.
constexpr int64_t short_range_groups = 8;

kvp_segment range(const kvp_segment& like, int64_t begin, int64_t end) {
    kvp_segment made = like;
    made.form = KVP_SEGMENT_RANGE;
    made.begin = begin;
    made.end = end;
    made.index = made.count = 0;
    made.ticket = 0;
    return made;
}

void attend_all(std::span<const kvp_segment> segments, bool merge, const KvStore::Attend& attend) {
    std::vector<const kvp_segment*> pointers;
    for (const kvp_segment& segment : segments) pointers.push_back(&segment);
    attend(pointers, merge);
}

}  // namespace

std::vector<int32_t> KvStore::host_copy(kvp_address address, uint64_t n_values) {
    std::vector<int32_t> values(n_values);
    if (device_.reads_host_memory()) {
        const auto* source = reinterpret_cast<const int32_t*>(address);
        std::copy(source, source + n_values, values.begin());
    } else {
        device_.download(values.data(), address, n_values * sizeof(int32_t));
    }
    return values;
}

KvStore::Lists KvStore::lists(const kvp_segment& segment) {
    Lists made;
    made.stride = segment.index_stride;
    made.index = host_copy(segment.index, uint64_t{layout_.kv_heads} * segment.index_stride);
    made.counts = host_copy(segment.count, layout_.kv_heads);
    const auto most = static_cast<int32_t>(std::min<uint64_t>(segment.max_count, segment.index_stride));
    for (int32_t& count : made.counts) count = std::clamp(count, 0, most);
    return made;
}

// The groups that a segment touches, each once.
std::vector<KvStore::Need> KvStore::needs(const LayerCache& layer, const kvp_segment& segment) {
    std::vector<Need> found;
    const uint64_t tokens = layout_.group_tokens;
    if (segment.form == KVP_SEGMENT_RANGE) {
        if (segment.begin < 0 || segment.end > static_cast<int64_t>(layer.groups.stride() * tokens)) {
            throw Error(ErrorKind::plugin, "the KV strategy wants rows [" + std::to_string(segment.begin) + ", " +
                                               std::to_string(segment.end) + "), which is not in the cache");
        }
        for (uint32_t head = 0; segment.begin < segment.end && head < layout_.kv_heads; ++head) {
            for (auto group = static_cast<uint64_t>(segment.begin) / tokens;
                 group <= static_cast<uint64_t>(segment.end - 1) / tokens; ++group) {
                found.push_back({head, group});
            }
        }
        return found;
    }
    const Lists named = lists(segment);
    const uint64_t unit = segment.form == KVP_SEGMENT_PAGE_LIST ? segment.page_tokens : 1;
    for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
        const auto count = static_cast<uint64_t>(named.counts[head]);
        uint64_t next = 0;  // first group that was not named yet
        for (uint64_t i = 0; i < count; ++i) {
            const int32_t entry = named.index[head * named.stride + i];
            const uint64_t first = static_cast<uint64_t>(entry) * unit / tokens;
            const uint64_t last = (static_cast<uint64_t>(entry) * unit + unit - 1) / tokens;
            if (entry < 0 || last >= layer.groups.stride()) {
                throw Error(ErrorKind::plugin, "the KV strategy selected row or page " + std::to_string(entry) +
                                                   ", which is not in the cache");
            }
            for (uint64_t group = std::max(first, next); group <= last; ++group) found.push_back({head, group});
            next = std::max(next, last + 1);
        }
    }
    return found;
}

// Pins what is readable, takes places for what is missing and starts one copy for all of it. Stops where no place is
// left: *n_taken says how many needs are met. What it took stands in the ticket either way.
bool KvStore::gather(SequenceCache& sequence, uint32_t layer, std::span<const Need> wanted, uint32_t priority,
                     Ticket& ticket, size_t* n_taken) {
    LayerCache& cache = sequence.layers[layer];
    const uint32_t per_head = layout_.groups_per_head();
    std::vector<uint64_t> from, to;
    size_t taken = 0;
    for (; taken < wanted.size(); ++taken) {
        const Need& need = wanted[taken];
        const PageRef& page = cache.pages[need.group / per_head];
        if (page == nullptr && layout_.codec != nullptr) continue;  // a row that is not encoded yet
        if (page == nullptr) {
            throw Error(ErrorKind::plugin, "the KV strategy names rows of page " +
                                               std::to_string(need.group / per_head) + ", which holds none yet");
        }
        Page& held = *page;
        if (held.device_slot >= 0) {
            ++held.pins;
            ticket.pinned_pages.push_back(&held);
            continue;
        }
        int32_t entry = ResidentSet::find(cache, need.kv_head, need.group);
        if (entry >= 0) {
            resident_.pin(entry);
            ticket.pinned.push_back(entry);
            continue;
        }
        if (resident_.slots() < room_for_resident()) make_room_for_entry();
        entry = resident_.acquire(cache, need.kv_head, need.group);
        if (entry < 0) break;
        ticket.pinned.push_back(entry);
        ticket.loading.push_back(entry);
        from.push_back(host_tier_.offset(held.host_slot) +
                       layout_.group_offset(need.kv_head, static_cast<uint32_t>(need.group % per_head)));
        to.push_back(resident_.offset(entry));
    }
    if (!from.empty()) {
        ticket.transfer = transfers_.submit(host_tier_, device_tier_, from, to, layout_.group_bytes(), priority);
    }
    if (n_taken != nullptr) *n_taken = taken;
    return taken == wanted.size();
}

// One page slot more for the resident set, if it may have one and a page can go for it.
bool KvStore::make_room_for_entry() {
    auto slot = device_tier_.acquire(SlotUse::resident);
    if (!slot && evict_one()) slot = device_tier_.acquire(SlotUse::resident);
    if (!slot) return false;
    resident_.grow(*slot);
    return true;
}

// Fetches that were started ahead hold places; who needs rows now goes first. What they brought stays as long as it
// can.
void KvStore::let_go_of_prefetches() {
    for (SequenceCache& sequence : sequences_) {
        for (LayerCache& layer : sequence.layers) {
            for (Ticket& ticket : layer.tickets) {
                publish(ticket);
                release(ticket);
            }
        }
    }
}

void KvStore::publish(Ticket& ticket) {
    if (ticket.transfer != 0) transfers_.wait(ticket.transfer);
    ticket.transfer = 0;
    for (int32_t entry : ticket.loading) resident_.publish(entry);
    ticket.loading.clear();
}

void KvStore::release(Ticket& ticket) {
    for (int32_t entry : ticket.pinned) resident_.unpin(entry);
    for (Page* held : ticket.pinned_pages) --held->pins;
    ticket.pinned.clear();
    ticket.pinned_pages.clear();
}

uint64_t KvStore::fetch(SequenceCache& sequence, uint32_t layer, const kvp_segment& segment) {
    if (!spills_ || segment.form == KVP_SEGMENT_VIRTUAL) return 0;
    LayerCache& cache = sequence.layers[layer];
    const std::vector<Need> wanted = needs(cache, segment);
    Ticket ticket;
    ticket.id = ++last_ticket_;
    gather(sequence, layer, wanted, KVP_PRIORITY_PREFETCH, ticket, nullptr);
    cache.tickets.push_back(std::move(ticket));
    return last_ticket_;
}

KvStore::ReadPlan KvStore::plan_read(SequenceCache& sequence, uint32_t layer, std::span<const kvp_segment> segments) {
    ReadPlan plan;
    LayerCache& cache = sequence.layers[layer];
    const auto is_short = [&](const kvp_segment& segment) {
        return segment.end - segment.begin <= short_range_groups * layout_.group_tokens;
    };
    // Lists and short ranges first: what they bring in may push whole pages out.
    for (const kvp_segment& segment : segments) {
        if (segment.form == KVP_SEGMENT_VIRTUAL) {
            plan.now.push_back(segment);
            continue;
        }
        if (segment.form == KVP_SEGMENT_RANGE && !is_short(segment)) continue;
        Ticket ticket;
        const bool has_room = gather(sequence, layer, needs(cache, segment), KVP_PRIORITY_FOREGROUND, ticket, nullptr);
        publish(ticket);
        if (has_room) {
            plan.held.push_back(std::move(ticket));
            plan.now.push_back(segment);
        } else {
            release(ticket);
            plan.in_pieces.push_back(segment);
        }
    }
    for (const kvp_segment& segment : segments) {
        if (segment.form == KVP_SEGMENT_RANGE && !is_short(segment)) plan_long_range(cache, segment, plan);
    }
    return plan;
}

// Runs of pages that the device has are read now, the others are streamed.
void KvStore::plan_long_range(const LayerCache& cache, const kvp_segment& segment, ReadPlan& plan) const {
    const int64_t page_tokens = layout_.page_tokens;
    StreamedRange streamed{segment, {}};
    int64_t run_begin = segment.begin;
    for (int64_t at = segment.begin; at < segment.end;) {
        const int64_t next = std::min(segment.end, (at / page_tokens + 1) * page_tokens);
        const auto index = static_cast<uint32_t>(at / page_tokens);
        if (cache.pages[index] != nullptr && cache.pages[index]->device_slot < 0) {
            if (run_begin < at) plan.now.push_back(range(segment, run_begin, at));
            run_begin = next;
            streamed.pages.push_back(index);
        }
        at = next;
    }
    if (run_begin < segment.end) plan.now.push_back(range(segment, run_begin, segment.end));
    if (!streamed.pages.empty()) plan.streamed.push_back(std::move(streamed));
}

void KvStore::read(SequenceCache& sequence, uint32_t layer, std::span<const kvp_segment> segments, Scratch& scratch,
                   const Attend& attend_shown) {
    const Attend decode_and_attend = [&](std::span<const kvp_segment* const> readable, bool merge) {
        const std::vector<Need> decoded = show_decoded(sequence, layer, readable);
        attend_shown(readable, merge);
        hide_decoded(sequence, layer, decoded);
    };
    const Attend& attend = layout_.codec != nullptr ? decode_and_attend : attend_shown;
    if (!spills_) return attend_all(segments, false, attend);
    for (Ticket& ticket : sequence.layers[layer].tickets) publish(ticket);
    ReadPlan plan = plan_read(sequence, layer, segments);
    attend_all(plan.now, false, attend);
    for (Ticket& ticket : plan.held) release(ticket);

    const int64_t page_tokens = layout_.page_tokens;
    for (const StreamedRange& streamed : plan.streamed) {
        stream(sequence, layer, streamed.pages, [&](uint32_t first, uint32_t last) {
            std::vector<kvp_segment> pieces;
            for (uint32_t i = first; i < last; ++i) {
                const int64_t begin = std::max(streamed.like.begin, streamed.pages[i] * page_tokens);
                const int64_t end = std::min(streamed.like.end, (streamed.pages[i] + 1) * page_tokens);
                if (!pieces.empty() && pieces.back().end == begin) {
                    pieces.back().end = end;
                } else {
                    pieces.push_back(range(streamed.like, begin, end));
                }
            }
            attend_all(pieces, true, attend);
        });
    }
    for (const kvp_segment& segment : plan.in_pieces) {
        read_rows_in_pieces(sequence, layer, segment, scratch, [&](const kvp_segment& piece) {
            attend_all({&piece, 1}, true, attend);
        });
    }
}

// Brings pages through the two halves of the staging slots: one half is read while the other fills.
void KvStore::stream(SequenceCache& sequence, uint32_t layer, std::span<const uint32_t> pages,
                     const std::function<void(uint32_t first, uint32_t last)>& use) {
    if (pages.empty()) return;
    const auto half = static_cast<uint32_t>(staging_.size() / 2);
    const auto n_pages = static_cast<uint32_t>(pages.size());
    const uint32_t windows = (n_pages + half - 1) / half;
    auto slot_of = [&](uint32_t window, uint32_t i) { return staging_[(window % 2) * half + i]; };
    auto load = [&](uint32_t window) {
        std::vector<uint64_t> from, to;
        for (uint32_t i = 0; i < half && window * half + i < n_pages; ++i) {
            from.push_back(host_tier_.offset(sequence.layers[layer].pages[pages[window * half + i]]->host_slot));
            to.push_back(device_tier_.offset(slot_of(window, i)));
        }
        return transfers_.submit(host_tier_, device_tier_, from, to, layout_.page_bytes(), KVP_PRIORITY_FOREGROUND);
    };
    TransferId coming = load(0);
    try {
        for (uint32_t window = 0; window < windows; ++window) {
            transfers_.wait(coming);
            if (window + 1 < windows) coming = load(window + 1);
            const uint32_t first = window * half;
            const uint32_t last = std::min(n_pages, first + half);
            for (uint32_t i = first; i < last; ++i) {
                show_page({&sequence, pages[i]}, layer, device_tier_.address(slot_of(window, i - first)));
            }
            use(first, last);
            for (uint32_t i = first; i < last; ++i) show_resident_groups({&sequence, pages[i]}, layer);
        }
    } catch (...) {
        transfers_.settle(coming);  // the slots that it writes to are about to be others'
        throw;
    }
}

// A page leaves the staging slots: of its groups, those that the resident set holds are readable there again.
void KvStore::show_resident_groups(const Page::User& user, uint32_t layer) {
    show_page(user, layer, 0);
    for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
        for (uint32_t i = 0; i < layout_.groups_per_head(); ++i) {
            const int32_t entry = ResidentSet::find(user.sequence->layers[layer], head,
                                                    uint64_t{user.index} * layout_.groups_per_head() + i);
            if (entry >= 0) resident_.publish(entry);
        }
    }
}

// A list whose groups do not find room all at once: as many rows as do, again and again.
void KvStore::read_rows_in_pieces(SequenceCache& sequence, uint32_t layer, const kvp_segment& segment, Scratch& scratch,
                                  const std::function<void(const kvp_segment&)>& attend) {
    LayerCache& cache = sequence.layers[layer];
    const std::vector<Need> wanted = needs(cache, segment);
    const uint64_t stride = uint64_t{layout_.group_tokens} * wanted.size();
    std::vector<uint8_t> selected;  // rows of the cache that the list names, a KV head after the other
    const uint64_t n_rows = cache.groups.stride() * layout_.group_tokens;
    selected.assign(n_rows * layout_.kv_heads, 0);
    if (segment.form == KVP_SEGMENT_RANGE) {
        for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
            std::fill(selected.begin() + static_cast<std::ptrdiff_t>(head * n_rows) + segment.begin,
                      selected.begin() + static_cast<std::ptrdiff_t>(head * n_rows) + segment.end, uint8_t{1});
        }
    } else {
        const Lists named = lists(segment);
        const uint64_t unit = segment.form == KVP_SEGMENT_PAGE_LIST ? segment.page_tokens : 1;
        for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
            for (int32_t i = 0; i < named.counts[head]; ++i) {
                const auto entry = static_cast<uint64_t>(named.index[head * named.stride + static_cast<uint64_t>(i)]);
                for (uint64_t row = entry * unit; row < entry * unit + unit; ++row) selected[head * n_rows + row] = 1;
            }
        }
    }
    bool let_go = false;
    for (size_t start = 0; start < wanted.size();) {
        Ticket ticket;
        size_t taken = 0;
        gather(sequence, layer, std::span(wanted).subspan(start), KVP_PRIORITY_FOREGROUND, ticket, &taken);
        publish(ticket);
        if (taken == 0 && !let_go) {
            let_go_of_prefetches();
            let_go = true;
            continue;
        }
        if (taken == 0) {
            throw Error(ErrorKind::memory,
                        "the device tier has no room for one group of selected rows; raise "
                        "tiers.device.kv_bytes");
        }
        std::vector<int32_t> piece_counts(layout_.kv_heads, 0);
        std::vector<int32_t> piece_index(layout_.kv_heads * stride, 0);
        for (size_t i = start; i < start + taken; ++i) {
            const Need& need = wanted[i];
            for (uint64_t row = need.group * layout_.group_tokens; row < (need.group + 1) * layout_.group_tokens;
                 ++row) {
                if (selected[need.kv_head * n_rows + row] == 0) continue;
                piece_index[need.kv_head * stride + static_cast<uint64_t>(piece_counts[need.kv_head]++)] =
                    static_cast<int32_t>(row);
            }
        }
        kvp_segment piece = segment;
        piece.form = KVP_SEGMENT_ROW_LIST;
        piece.index_stride = stride;
        piece.max_count = static_cast<uint32_t>(stride);
        piece.index = scratch.take(piece_index.size() * sizeof(int32_t));
        piece.count = scratch.take(piece_counts.size() * sizeof(int32_t));
        device_.upload(piece.index, piece_index.data(), piece_index.size() * sizeof(int32_t));
        device_.upload(piece.count, piece_counts.data(), piece_counts.size() * sizeof(int32_t));
        attend(piece);
        release(ticket);
        start += taken;
    }
}

void KvStore::walk(SequenceCache& sequence, uint32_t layer, int64_t begin, int64_t end, const Visit& visit_shown) {
    const Visit visit = [&](const kvp_rows& rows_of_piece, int64_t from, int64_t to) {
        if (layout_.codec == nullptr) return visit_shown(rows_of_piece, from, to);
        kvp_segment piece{};
        piece.form = KVP_SEGMENT_RANGE;
        piece.begin = from;
        piece.end = to;
        const kvp_segment* const named = &piece;
        const std::vector<Need> decoded = show_decoded(sequence, layer, {&named, 1});
        visit_shown(rows(sequence, layer), from, to);
        hide_decoded(sequence, layer, decoded);
    };
    const int64_t page_tokens = layout_.page_tokens;
    std::vector<uint32_t> away;
    for (int64_t at = begin; at < end;) {
        // A run of pages that are all readable, or all away.
        const auto is_here = [&](int64_t row) {
            const Page* held = sequence.layers[layer].pages[static_cast<size_t>(row / page_tokens)].get();
            return options_.in_place || held == nullptr || held->device_slot >= 0;
        };
        const bool here = is_here(at);
        int64_t next = at;
        away.clear();
        while (next < end && is_here(next) == here) {
            if (!here) away.push_back(static_cast<uint32_t>(next / page_tokens));
            next = std::min(end, (next / page_tokens + 1) * page_tokens);
        }
        if (here) {
            visit(rows(sequence, layer), at, next);
        } else {
            stream(sequence, layer, away, [&](uint32_t first, uint32_t last) {
                const int64_t from = std::max(at, int64_t{away[first]} * page_tokens);
                const int64_t to = std::min(next, (int64_t{away[last - 1]} + 1) * page_tokens);
                visit(rows(sequence, layer), from, to);
            });
        }
        at = next;
    }
}

}  // namespace kvplane
