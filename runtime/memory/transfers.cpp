#include "memory/transfers.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/error.h"

namespace kvplane {

namespace {
constexpr uint64_t poll_ns = 100'000'000;
constexpr int polls_before_lost = 600;  // a minute without any batch ending
}  // namespace

Transfers::Transfers(const kvp_transfer* table, Device& device, Explain explain)
    : table_(table), device_(device), explain_(std::move(explain)) {
    check(table_->open(&engine_), "opening");
}

Transfers::~Transfers() {
    settle_all();
    for (const auto& [tier, memory] : memories_) table_->remove_memory(engine_, memory);
    table_->close(engine_);
}

void Transfers::check(kvp_status status, std::string_view doing) {
    if (status == KVP_OK) return;
    throw Error(ErrorKind::plugin, "the transfer plugin failed at " + std::string(doing) + ": " + explain_(status));
}

void Transfers::add_tier(const Tier& tier) {
    kvp_transfer_region region{};
    region.head.struct_size = sizeof(region);
    region.tier = tier.kind();
    region.base = tier.base();
    region.n_bytes = tier.budget_bytes();
    check(table_->add_memory(engine_, &region, &memories_[&tier]), "registering tier " + tier.name());
}

TransferId Transfers::submit(const Tier& from, const Tier& to, std::span<const uint64_t> from_offsets,
                             std::span<const uint64_t> to_offsets, uint64_t piece_bytes, uint32_t priority) {
    device_
        .synchronise();  // the fences writer -> store and reader -> reuse; nothing to wait for on a synchronous device
    kvp_transfer_batch batch{};
    batch.head.struct_size = sizeof(batch);
    batch.from = memories_.at(&from);
    batch.to = memories_.at(&to);
    batch.from_offsets = from_offsets.data();
    batch.to_offsets = to_offsets.data();
    batch.piece_bytes = piece_bytes;
    batch.n_pieces = static_cast<uint32_t>(from_offsets.size());
    batch.priority = priority;
    batch.tag = ++last_;
    const std::string direction = from.name() + " to " + to.name();
    kvp_status status = table_->submit(engine_, &batch);
    while (status == KVP_AGAIN) {
        collect(poll_ns);
        status = table_->submit(engine_, &batch);
    }
    check(status, "copying " + direction);
    running_.emplace(last_, direction);
    Totals& totals = totals_[direction];
    totals.bytes += piece_bytes * batch.n_pieces;
    totals.pieces += batch.n_pieces;
    totals.batches += 1;
    bytes_ += piece_bytes * batch.n_pieces;
    return last_;
}

void Transfers::collect(uint64_t timeout_ns) {
    std::array<kvp_transfer_record, 16> records{};
    std::array<kvp_transfer_record*, 16> pointers{};
    for (size_t i = 0; i < records.size(); ++i) {
        records[i].head.struct_size = sizeof(kvp_transfer_record);
        pointers[i] = &records[i];
    }
    uint32_t filled = 0;
    const kvp_status status = table_->poll(engine_, pointers.data(), pointers.size(), timeout_ns, &filled);
    if (status < 0) check(status, "polling");
    for (uint32_t i = 0; i < filled; ++i) {
        const auto running = running_.find(records[i].tag);
        if (running == running_.end()) {
            throw Error(ErrorKind::plugin, "the transfer plugin ended a batch that it was not given");
        }
        if (records[i].state != KVP_TRANSFER_DONE) {
            failed_[records[i].tag] = "a copy from " + running->second + " failed after " +
                                      std::to_string(records[i].n_bytes) + " bytes (state " +
                                      std::to_string(records[i].state) + ", error " + std::to_string(records[i].error) +
                                      ")";
        }
        running_.erase(running);
    }
}

void Transfers::throw_if_failed(TransferId id) const {
    const auto failed = failed_.find(id);
    if (failed != failed_.end()) throw Error(ErrorKind::runtime, failed->second);
}

bool Transfers::done(TransferId id) {
    if (running_.contains(id)) collect(0);
    throw_if_failed(id);
    return !running_.contains(id);
}

void Transfers::settle(TransferId id) noexcept {
    try {
        for (int i = 0; i < polls_before_lost && running_.contains(id); ++i) collect(poll_ns);
    } catch (...) {  // the plugin itself fails: nothing more can be waited for
    }
}

void Transfers::settle_all() noexcept {
    while (!running_.empty()) {
        const TransferId id = running_.begin()->first;
        settle(id);
        running_.erase(id);
    }
}

void Transfers::wait(TransferId id) {
    if (done(id)) return;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; running_.contains(id); ++i) {
        if (i == polls_before_lost) {
            throw Error(ErrorKind::runtime, "a copy from " + running_.at(id) + " has not ended for a minute");
        }
        const size_t before = running_.size();
        collect(poll_ns);
        if (running_.size() != before) i = 0;
    }
    throw_if_failed(id);
    const auto waited = std::chrono::steady_clock::now() - start;
    wait_ns_ += static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(waited).count());
}

}  // namespace kvplane
