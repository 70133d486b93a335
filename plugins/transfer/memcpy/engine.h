// The engine: a line of batches, the threads that copy them, and the records of those that ended.
#pragma once

#include <kvplane/transfer.h>

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "kvplane/sdk/host.hpp"

struct kvp_transfer_memory {
    std::byte* base;
    uint64_t n_bytes;
    uint32_t n_batches;  // that use it and have not ended; under the engine's mutex
};

// All functions may be called from any thread. What is wrong with an argument is thrown as kvp::Failure.
struct kvp_transfer_engine {
public:
    // n_threads 0: submit copies.
    kvp_transfer_engine(const kvp_host* host, uint32_t n_threads, uint32_t max_batches);
    // Copies all that was accepted first.
    ~kvp_transfer_engine();

    kvp_transfer_memory* add_memory(const kvp_transfer_region& region);
    kvp_status remove_memory(kvp_transfer_memory* memory);
    kvp_status submit(const kvp_transfer_batch& batch);
    kvp_status poll(kvp_transfer_record* const* records, uint32_t n_records, uint64_t timeout_ns, uint32_t* n_filled);
    kvp_status cancel(uint64_t tag);

private:
    struct Job {
        kvp_transfer_memory* from;
        kvp_transfer_memory* to;
        std::vector<uint64_t> from_offsets, to_offsets;
        uint64_t piece_bytes;
        uint64_t deadline_ns;
        kvp_transfer_record record;
    };
    // A job is allocated once, by submit; from then on its node moves from list to list, which cannot fail.
    using Jobs = std::list<Job>;
    static constexpr size_t n_priorities = 3;

    void work();
    bool take_next(Jobs& job);
    void copy(Job& job) const;
    void end(Jobs& job);
    void require_known(const kvp_transfer_memory* memory) const;
    void stop_threads();
    uint64_t now_ns() const { return host_->now_ns(host_->context); }

    const kvp_host* const host_;
    const bool copies_in_submit_;
    const uint32_t max_batches_;

    std::mutex mutex_;
    std::condition_variable work_to_do_;
    std::condition_variable record_there_;
    std::list<kvp_transfer_memory> memories_;
    Jobs waiting_[n_priorities];  // the most urgent first
    Jobs ended_;
    uint32_t n_under_way_ = 0;  // accepted and not polled
    bool closing_ = false;
    std::vector<std::thread> threads_;
};
