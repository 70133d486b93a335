#include "memory/resident_set.h"

#include <algorithm>

namespace kvplane {

void ResidentSet::grow(int32_t slot) {
    slots_.push_back(slot);
    size_t next = 0;  // entries of slots that were given back serve again
    for (uint32_t place = 0; place < layout_.groups_per_page(); ++place, ++next) {
        while (next < entries_.size() && entries_[next].slot >= 0) ++next;
        if (next == entries_.size()) entries_.emplace_back();
        entries_[next].slot = slot;
        entries_[next].place = place;
        free_.push_back(static_cast<int32_t>(next));
    }
}

std::optional<int32_t> ResidentSet::shrink() {
    for (size_t i = slots_.size(); i > 0; --i) {
        const int32_t slot = slots_[i - 1];
        const auto in_slot = [&](const Entry& entry) { return entry.slot == slot; };
        if (std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return in_slot(e) && e.pins > 0; })) {
            continue;
        }
        for (size_t e = 0; e < entries_.size(); ++e) {
            if (!in_slot(entries_[e])) continue;
            if (entries_[e].layer != nullptr) forget(static_cast<int32_t>(e));
            entries_[e].slot = -1;
        }
        std::erase_if(free_, [&](int32_t entry) { return at(entry).slot < 0; });
        slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(i - 1));
        return slot;
    }
    return std::nullopt;
}

void ResidentSet::link_newest(int32_t entry) {
    at(entry).older = newest_;
    at(entry).newer = -1;
    (newest_ < 0 ? oldest_ : at(newest_).newer) = entry;
    newest_ = entry;
}

void ResidentSet::unlink(int32_t entry) {
    const Entry& e = at(entry);
    (e.older < 0 ? oldest_ : at(e.older).newer) = e.newer;
    (e.newer < 0 ? newest_ : at(e.newer).older) = e.older;
}

void ResidentSet::forget(int32_t entry) {
    Entry& e = at(entry);
    unlink(entry);
    e.layer->resident[e.kv_head * e.layer->groups.stride() + e.group] = -1;
    e.layer->groups.set(e.kv_head, e.group, 0);
    e.layer = nullptr;
    e.pins = 0;
    free_.push_back(entry);
}

int32_t ResidentSet::acquire(LayerCache& layer, uint32_t kv_head, uint64_t group) {
    if (free_.empty()) {
        int32_t victim = oldest_;
        while (victim >= 0 && at(victim).pins > 0) victim = at(victim).newer;
        if (victim < 0) return -1;
        forget(victim);
    }
    const int32_t entry = free_.back();
    free_.pop_back();
    Entry& e = at(entry);
    e.layer = &layer;
    e.kv_head = kv_head;
    e.group = group;
    e.pins = 1;
    layer.resident[kv_head * layer.groups.stride() + group] = entry;
    link_newest(entry);
    return entry;
}

void ResidentSet::pin(int32_t entry) {
    ++at(entry).pins;
    unlink(entry);
    link_newest(entry);
}

void ResidentSet::unpin(int32_t entry) {
    --at(entry).pins;
}

uint64_t ResidentSet::offset(int32_t entry) const {
    return device_.offset(at(entry).slot) + at(entry).place * layout_.group_bytes();
}

void ResidentSet::publish(int32_t entry) {
    Entry& e = at(entry);
    e.layer->groups.set(e.kv_head, e.group, device_.base() + offset(entry));
}

void ResidentSet::drop(LayerCache& layer) {
    for (int32_t entry : std::vector<int32_t>(layer.resident)) {
        if (entry >= 0) forget(entry);
    }
}

void ResidentSet::drop_page(LayerCache& layer, uint32_t page) {
    for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
        for (uint32_t i = 0; i < layout_.groups_per_head(); ++i) {
            const int32_t entry = find(layer, head, uint64_t{page} * layout_.groups_per_head() + i);
            if (entry >= 0) forget(entry);
        }
    }
}

}  // namespace kvplane
