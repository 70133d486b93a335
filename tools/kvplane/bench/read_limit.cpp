#include "bench/read_limit.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "bench/median.h"
#include "memory/host_memory.h"

namespace kvplane::tool {

namespace {

constexpr uint64_t most_bytes = 256ull << 20;
constexpr uint64_t huge_page = 2ull << 20;
constexpr uint64_t line_bytes = 64;
constexpr int streams = 4;           // of a thread: more outstanding misses than one stream's prefetcher keeps
constexpr uint64_t ahead = 512;      // bytes
constexpr double long_enough = 0.1;  // seconds of a measurement

using Words = uint64_t __attribute__((vector_size(16)));  // what every processor loads at once

uint64_t read_all(const std::byte* block, uint64_t bytes) {
    const uint64_t part = bytes / streams;
    Words sums[streams] = {};
    for (uint64_t at = 0; at < part; at += line_bytes) {
        for (int stream = 0; stream < streams; ++stream) {
            const std::byte* line = block + static_cast<uint64_t>(stream) * part + at;
            __builtin_prefetch(line + ahead, 0, 0);
            const Words* words = reinterpret_cast<const Words*>(line);
            for (uint64_t i = 0; i < line_bytes / sizeof(Words); ++i) sums[stream] |= words[i];
        }
    }
    Words all = {};
    for (const Words& sum : sums) all |= sum;
    return all[0] | all[1];
}

}  // namespace

ReadLimit::ReadLimit(uint32_t threads) {
    const uint64_t physical = physical_memory_bytes();
    const uint64_t share = physical == 0 ? most_bytes : physical / 4 / threads;
    bytes_ = std::max(huge_page, std::min(most_bytes, share) / huge_page * huge_page);
    for (uint32_t i = 0; i < threads; ++i) {
        void* const block = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) throw Error(ErrorKind::memory, "no memory to measure the read limit in");
        blocks_.push_back(static_cast<std::byte*>(block));
#ifdef MADV_HUGEPAGE
        madvise(block, bytes_, MADV_HUGEPAGE);  // a wish: without it the same bytes cost more page walks
#endif
    }
    std::vector<std::jthread> fillers;  // by the threads that read it, so that it lies near them
    for (std::byte* block : blocks_) fillers.emplace_back([block, this] { std::memset(block, 1, bytes_); });
}

ReadLimit::~ReadLimit() {
    for (std::byte* block : blocks_) munmap(block, bytes_);
}

double ReadLimit::measure() {
    using clock = std::chrono::steady_clock;
    const auto n = static_cast<std::ptrdiff_t>(blocks_.size());
    std::vector<double> rates;
    clock::time_point start, begin = clock::now();
    bool done = false;
    const auto next_pass = [&]() noexcept {
        const auto now = clock::now();
        if (start != clock::time_point()) {
            const std::chrono::duration<double> took = now - start;
            rates.push_back(static_cast<double>(bytes_ * blocks_.size()) / took.count());
        }
        done = rates.size() >= 3 && std::chrono::duration<double>(now - begin).count() >= long_enough;
        start = clock::now();
    };
    std::barrier barrier(n, next_pass);
    std::atomic<uint64_t> sink{0};
    {
        std::vector<std::jthread> readers;
        for (const std::byte* block : blocks_) {
            readers.emplace_back([&, block] {
                for (;;) {
                    barrier.arrive_and_wait();
                    if (done) return;
                    sink.fetch_or(read_all(block, bytes_), std::memory_order_relaxed);
                }
            });
        }
    }
    return median(rates);
}

}  // namespace kvplane::tool
