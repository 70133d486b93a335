// Copies between tiers through the transfer plugin: submitted, waited for, counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "kvplane/transfer.h"
#include "memory/tier.h"

namespace kvplane {

using TransferId = uint64_t;  // 0: none

class Transfers {
public:
    struct Totals {
        uint64_t bytes = 0;
        uint64_t pieces = 0;
        uint64_t batches = 0;
    };

    Transfers(const kvp_transfer* table, Device& device, Explain explain);
    ~Transfers();
    Transfers(const Transfers&) = delete;
    Transfers& operator=(const Transfers&) = delete;

    void add_tier(const Tier& tier);

    // Copies pieces of piece_bytes from `from` to `to`; offsets are relative to the tier. The work that is on the
    // device's queue now comes first: what wrote the source, and what still reads the target.
    TransferId submit(const Tier& from, const Tier& to, std::span<const uint64_t> from_offsets,
                      std::span<const uint64_t> to_offsets, uint64_t piece_bytes, uint32_t priority);
    // True once it ended well; throws Error(runtime) if it failed, at every call.
    bool done(TransferId id);
    void wait(TransferId id);
    // Returns when it no longer touches memory, however it ended. For clean-up: 0 is allowed, nothing is thrown.
    void settle(TransferId id) noexcept;
    void settle_all() noexcept;
    bool failed(TransferId id) const { return failed_.contains(id); }

    const std::map<std::string, Totals>& totals() const { return totals_; }  // by "host to device"
    uint64_t bytes() const { return bytes_; }
    uint64_t wait_ns() const { return wait_ns_; }

private:
    void collect(uint64_t timeout_ns);
    void throw_if_failed(TransferId id) const;
    void check(kvp_status status, std::string_view doing);

    const kvp_transfer* table_;
    Device& device_;
    Explain explain_;
    kvp_transfer_engine* engine_ = nullptr;
    std::map<const Tier*, kvp_transfer_memory*> memories_;
    std::unordered_map<TransferId, std::string> running_;  // id -> what it is, for messages
    std::unordered_map<TransferId, std::string> failed_;   // id -> why
    TransferId last_ = 0;
    std::map<std::string, Totals> totals_;
    uint64_t bytes_ = 0;
    uint64_t wait_ns_ = 0;
};

}  // namespace kvplane
