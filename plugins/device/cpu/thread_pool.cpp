#include "thread_pool.h"

#include <immintrin.h>

namespace kvplane::cpu {
namespace {

// How long an idle thread looks for work before it sleeps: longer than the serial work between two regions of a decode
// step, far shorter than a time slice. One pause takes about 10 to 40 ns.
constexpr int kSpins = 2000;
constexpr int64_t kMaxSlices = 0xFFFF;

constexpr uint64_t region_of(uint64_t ticket) {
    return ticket >> 32;
}
constexpr uint64_t slices_of(uint64_t ticket) {
    return ticket >> 16 & 0xFFFF;
}
constexpr uint64_t next_of(uint64_t ticket) {
    return ticket & 0xFFFF;
}

}  // namespace

ThreadPool::ThreadPool(uint32_t n_threads) {
    if (n_threads == 0) n_threads = std::max(1u, std::thread::hardware_concurrency());
    workers_.reserve(n_threads - 1);
    try {
        for (uint32_t i = 1; i < n_threads; ++i) workers_.emplace_back([this, i] { work(i); });
    } catch (...) {  // the system grants fewer threads: go on with those
    }
}

ThreadPool::~ThreadPool() {
    stopping_ = true;
    ticket_.fetch_add(uint64_t{1} << 32, std::memory_order_release);
    ticket_.notify_all();
    for (auto& worker : workers_) worker.join();
}

void ThreadPool::run_region(int64_t n_parts, Call call, const void* context) {
    const bool alone = workers_.empty() || n_parts == 1;
    std::unique_lock lock(region_, std::defer_lock);
    if (alone || !lock.try_lock()) {
        for (int64_t part = 0; part < n_parts; ++part) call(context, part, 0);
        return;
    }
    call_ = call;
    context_ = context;
    n_parts_ = n_parts;
    slice_ = (n_parts + kMaxSlices - 1) / kMaxSlices;
    const auto n_slices = static_cast<uint64_t>((n_parts + slice_ - 1) / slice_);
    finished_.store(0, std::memory_order_relaxed);
    const uint64_t region = (region_of(ticket_.load(std::memory_order_relaxed)) + 1) & 0xFFFFFFFF;
    ticket_.store(region << 32 | n_slices << 16, std::memory_order_release);
    ticket_.notify_all();
    take_parts(region, 0);
    for (int i = 0; finished_.load(std::memory_order_acquire) != n_slices; ++i) {
        if (i < kSpins) {
            _mm_pause();
        } else if (const uint32_t seen = finished_.load(std::memory_order_acquire); seen != n_slices) {
            finished_.wait(seen, std::memory_order_acquire);
        }
    }
}

void ThreadPool::take_parts(uint64_t region, uint32_t worker) {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (region_of(ticket) == region && next_of(ticket) < slices_of(ticket)) {
        if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
            continue;
        }
        const int64_t begin = static_cast<int64_t>(next_of(ticket)) * slice_;
        const int64_t end = std::min(n_parts_, begin + slice_);
        for (int64_t part = begin; part < end; ++part) call_(context_, part, worker);
        const uint32_t done = finished_.fetch_add(1, std::memory_order_acq_rel) + 1;
        if (done == slices_of(ticket)) finished_.notify_all();
        ticket = ticket_.load(std::memory_order_acquire);
    }
}

void ThreadPool::work(uint32_t worker) {
    uint64_t seen = 0;
    while (!stopping_.load(std::memory_order_acquire)) {
        uint64_t ticket = ticket_.load(std::memory_order_acquire);
        for (int i = 0; i < kSpins && region_of(ticket) == seen; ++i) {
            _mm_pause();
            ticket = ticket_.load(std::memory_order_acquire);
        }
        if (region_of(ticket) == seen) {
            ticket_.wait(ticket, std::memory_order_acquire);
            continue;
        }
        seen = region_of(ticket);
        take_parts(seen, worker);
    }
}

}  // namespace kvplane::cpu
