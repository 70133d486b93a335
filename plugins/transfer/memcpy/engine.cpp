#include "engine.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "fill.h"
#include "kvplane/sdk/base.hpp"

namespace {

[[noreturn]] void refuse(const std::string& reason) {
    throw kvp::Failure(KVP_ERROR_INVALID, reason);
}

// Pieces must lie inside of the region; written so that no sum can wrap.
void check_offsets(const kvp_transfer_memory& memory, const std::vector<uint64_t>& offsets, uint64_t piece_bytes,
                   const char* side) {
    for (size_t i = 0; i < offsets.size(); ++i) {
        if (piece_bytes <= memory.n_bytes && offsets[i] <= memory.n_bytes - piece_bytes) continue;
        refuse("piece " + std::to_string(i) + " of " + std::to_string(piece_bytes) + " bytes at " + side + " offset " +
               std::to_string(offsets[i]) + " leaves the region of " + std::to_string(memory.n_bytes) + " bytes");
    }
}

}  // namespace

kvp_transfer_engine::kvp_transfer_engine(const kvp_host* host, uint32_t n_threads, uint32_t max_batches)
    : host_(host), copies_in_submit_(n_threads == 0), max_batches_(max_batches) {
    try {
        for (uint32_t i = 0; i < n_threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {
        stop_threads();
        throw;
    }
}

kvp_transfer_engine::~kvp_transfer_engine() {
    stop_threads();
}

void kvp_transfer_engine::stop_threads() {
    {
        std::lock_guard lock(mutex_);
        closing_ = true;
    }
    work_to_do_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

kvp_transfer_memory* kvp_transfer_engine::add_memory(const kvp_transfer_region& region) {
    if (region.tier != KVP_TIER_DEVICE && region.tier != KVP_TIER_PINNED && region.tier != KVP_TIER_HOST) {
        throw kvp::Failure(KVP_UNSUPPORTED, "memcpy moves between device, pinned and host memory, not tier " +
                                                std::to_string(region.tier));
    }
    if (region.base == 0 || region.n_bytes == 0) refuse("a region without memory");
    if (region.n_bytes > UINTPTR_MAX - region.base) refuse("a region that ends beyond the address space");
    std::lock_guard lock(mutex_);
    return &memories_.emplace_back(
        kvp_transfer_memory{reinterpret_cast<std::byte*>(static_cast<uintptr_t>(region.base)), region.n_bytes, 0});
}

void kvp_transfer_engine::require_known(const kvp_transfer_memory* memory) const {
    const auto is_it = [&](const kvp_transfer_memory& known) { return &known == memory; };
    if (std::none_of(memories_.begin(), memories_.end(), is_it)) refuse("a memory that this engine does not know");
}

kvp_status kvp_transfer_engine::remove_memory(kvp_transfer_memory* memory) {
    std::lock_guard lock(mutex_);
    require_known(memory);
    if (memory->n_batches != 0) return KVP_AGAIN;
    memories_.remove_if([&](const kvp_transfer_memory& known) { return &known == memory; });
    return KVP_OK;
}

kvp_status kvp_transfer_engine::submit(const kvp_transfer_batch& batch) {
    if (batch.after.event != nullptr || batch.then.event != nullptr) {
        throw kvp::Failure(KVP_UNSUPPORTED,
                           "memcpy knows no device whose events it could wait for or raise; "
                           "submit when the source is ready, and go by the record");
    }
    if (batch.n_pieces == 0 || batch.piece_bytes == 0) refuse("a batch that moves nothing");
    if (batch.from_offsets == nullptr || batch.to_offsets == nullptr) refuse("a batch without its lists of offsets");
    if (batch.priority < KVP_PRIORITY_FOREGROUND || batch.priority > KVP_PRIORITY_STORE) {
        refuse("priority " + std::to_string(batch.priority) + " does not exist");
    }
    Jobs job;
    job.push_back({.from = batch.from,
                   .to = batch.to,
                   .from_offsets = {batch.from_offsets, batch.from_offsets + batch.n_pieces},
                   .to_offsets = {batch.to_offsets, batch.to_offsets + batch.n_pieces},
                   .piece_bytes = batch.piece_bytes,
                   .deadline_ns = batch.deadline_ns,
                   .record = kvp::make<kvp_transfer_record>()});
    job.front().record.tag = batch.tag;
    job.front().record.path = KVP_PATH_DIRECT;
    {
        std::lock_guard lock(mutex_);
        require_known(batch.from);
        require_known(batch.to);
        check_offsets(*batch.from, job.front().from_offsets, batch.piece_bytes, "source");
        check_offsets(*batch.to, job.front().to_offsets, batch.piece_bytes, "target");
        if (n_under_way_ >= max_batches_) return KVP_AGAIN;
        ++n_under_way_;
        ++batch.from->n_batches;
        ++batch.to->n_batches;
        if (!copies_in_submit_) {
            Jobs& line = waiting_[batch.priority - KVP_PRIORITY_FOREGROUND];
            line.splice(line.end(), job);
        }
    }
    if (copies_in_submit_) {
        copy(job.front());
        std::lock_guard lock(mutex_);
        end(job);
    } else {
        work_to_do_.notify_one();
    }
    return KVP_OK;
}

bool kvp_transfer_engine::take_next(Jobs& job) {
    for (Jobs& line : waiting_) {
        if (line.empty()) continue;
        job.splice(job.end(), line, line.begin());
        return true;
    }
    return false;
}

void kvp_transfer_engine::work() {
    // Signals are for the program's own threads.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);

    std::unique_lock lock(mutex_);
    for (;;) {
        Jobs job;
        work_to_do_.wait(lock, [&] { return take_next(job) || closing_; });
        if (job.empty()) return;
        lock.unlock();
        copy(job.front());
        lock.lock();
        end(job);
    }
}

// Runs without the lock: nobody else sees the job, and its memories stay because they count it.
void kvp_transfer_engine::copy(Job& job) const {
    job.record.start_ns = now_ns();
    if (job.deadline_ns != 0 && job.record.start_ns > job.deadline_ns) {
        job.record.state = KVP_TRANSFER_FAILED;
        job.record.error = ETIMEDOUT;
    } else {
        for (size_t i = 0; i < job.from_offsets.size(); ++i) {
            std::memmove(job.to->base + job.to_offsets[i], job.from->base + job.from_offsets[i], job.piece_bytes);
        }
        job.record.state = KVP_TRANSFER_DONE;
        job.record.n_bytes = job.piece_bytes * job.from_offsets.size();
    }
    job.record.end_ns = now_ns();
}

// Under the lock.
void kvp_transfer_engine::end(Jobs& job) {
    --job.front().from->n_batches;
    --job.front().to->n_batches;
    ended_.splice(ended_.end(), job);
    record_there_.notify_all();
}

kvp_status kvp_transfer_engine::poll(kvp_transfer_record* const* records, uint32_t n_records, uint64_t timeout_ns,
                                     uint32_t* n_filled) {
    using std::chrono::nanoseconds;
    // An hour of waiting is as good as for ever, and cannot overflow the clock.
    constexpr uint64_t longest_ns = 3'600'000'000'000;
    // How often a wait looks whether the process wants to end.
    constexpr nanoseconds slice(20'000'000);

    *n_filled = 0;
    if (n_records == 0) return KVP_OK;
    if (records == nullptr) refuse("no records to fill");
    const auto end = std::chrono::steady_clock::now() + nanoseconds(std::min(timeout_ns, longest_ns));

    Jobs polled;
    {
        std::unique_lock lock(mutex_);
        while (ended_.empty() && std::chrono::steady_clock::now() < end) {
            if (host_->is_stopping(host_->context) != 0) return KVP_STOPPED;
            record_there_.wait_until(lock, std::min(end, std::chrono::steady_clock::now() + slice));
        }
        while (!ended_.empty() && polled.size() < n_records) polled.splice(polled.end(), ended_, ended_.begin());
        n_under_way_ -= static_cast<uint32_t>(polled.size());
    }
    for (const Job& job : polled) fill(records[(*n_filled)++], job.record);
    return KVP_OK;
}

kvp_status kvp_transfer_engine::cancel(uint64_t tag) {
    std::lock_guard lock(mutex_);
    bool found = false;
    for (Jobs& line : waiting_) {
        for (auto job = line.begin(); job != line.end();) {
            const auto next = std::next(job);
            if (job->record.tag == tag) {
                job->record.state = KVP_TRANSFER_CANCELLED;
                Jobs one;
                one.splice(one.end(), line, job);
                end(one);
                found = true;
            }
            job = next;
        }
    }
    return found ? KVP_OK : KVP_NOT_FOUND;
}
