// A memory with a hard byte budget, cut into page slots, and the ledger of who holds them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvplane/base.h"

namespace kvplane {

enum class SlotUse : uint8_t { free, page, staging, resident };

class Tier {
public:
    // `base` is the address of n_slots * slot_bytes bytes that the caller keeps.
    Tier(std::string name, uint32_t kind, kvp_address base, uint64_t slot_bytes, uint32_t n_slots);

    const std::string& name() const { return name_; }
    uint32_t kind() const { return kind_; }
    kvp_address address(int32_t slot) const { return base_ + offset(slot); }
    uint64_t offset(int32_t slot) const { return static_cast<uint64_t>(slot) * slot_bytes_; }
    kvp_address base() const { return base_; }
    uint64_t slot_bytes() const { return slot_bytes_; }

    // Empty when the budget is used up: a normal answer.
    std::optional<int32_t> acquire(SlotUse use);
    void release(int32_t slot);

    uint32_t capacity() const { return static_cast<uint32_t>(uses_.size()); }
    uint32_t count(SlotUse use) const { return counts_[static_cast<size_t>(use)]; }
    uint64_t budget_bytes() const { return capacity() * slot_bytes_; }
    uint64_t used_bytes() const { return (capacity() - count(SlotUse::free)) * slot_bytes_; }
    uint64_t peak_bytes() const { return peak_slots_ * slot_bytes_; }

    // Counts all slots anew and throws Error(runtime) unless the ledger agrees. Called each step.
    void verify() const;

private:
    std::string name_;
    uint32_t kind_;
    kvp_address base_;
    uint64_t slot_bytes_;
    std::vector<SlotUse> uses_;
    std::vector<int32_t> free_;
    std::array<uint32_t, 4> counts_{};
    uint64_t peak_slots_ = 0;
};

}  // namespace kvplane
