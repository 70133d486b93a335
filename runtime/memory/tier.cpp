#include "memory/tier.h"

#include <algorithm>

#include "base/error.h"

namespace kvplane {

Tier::Tier(std::string name, uint32_t kind, kvp_address base, uint64_t slot_bytes, uint32_t n_slots)
    : name_(std::move(name)), kind_(kind), base_(base), slot_bytes_(slot_bytes), uses_(n_slots, SlotUse::free) {
    free_.reserve(n_slots);
    for (uint32_t slot = n_slots; slot > 0; --slot) free_.push_back(static_cast<int32_t>(slot - 1));
    counts_[static_cast<size_t>(SlotUse::free)] = n_slots;
}

std::optional<int32_t> Tier::acquire(SlotUse use) {
    if (free_.empty()) return std::nullopt;
    const int32_t slot = free_.back();
    free_.pop_back();
    uses_[static_cast<size_t>(slot)] = use;
    --counts_[static_cast<size_t>(SlotUse::free)];
    ++counts_[static_cast<size_t>(use)];
    peak_slots_ = std::max<uint64_t>(peak_slots_, capacity() - count(SlotUse::free));
    return slot;
}

void Tier::release(int32_t slot) {
    SlotUse& use = uses_[static_cast<size_t>(slot)];
    if (use == SlotUse::free) throw Error(ErrorKind::runtime, "tier " + name_ + ": slot freed twice");
    --counts_[static_cast<size_t>(use)];
    ++counts_[static_cast<size_t>(SlotUse::free)];
    use = SlotUse::free;
    free_.push_back(slot);
}

void Tier::verify() const {
    std::array<uint32_t, 4> counted{};
    for (SlotUse use : uses_) ++counted[static_cast<size_t>(use)];
    if (counted != counts_ || free_.size() != count(SlotUse::free)) {
        throw Error(ErrorKind::runtime, "tier " + name_ + ": the ledger does not agree with the slots; this is a bug");
    }
}

}  // namespace kvplane
