// The plugin's threads. A region is a number of parts that whoever is free takes one after another; the caller works
// too, and is done when all parts are, so a thread that the system does not run delays a region by one part at most,
// and one that has not even begun by nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace kvplane::cpu {

class ThreadPool {
public:
    // n_threads counts the caller; 0: as many as the process may use.
    explicit ThreadPool(uint32_t n_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    uint32_t n_threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

    // body(part, worker) for part in [0, n_parts), worker in [0, n_threads). body must not throw. A second region at
    // the same time (another queue) runs on its caller alone, as all of its parts with worker 0.
    template <typename Body>
    void run(int64_t n_parts, const Body& body) {
        if (n_parts <= 0) return;
        const auto call = [](const void* context, int64_t part, uint32_t worker) {
            (*static_cast<const Body*>(context))(part, worker);
        };
        run_region(n_parts, call, &body);
    }

    // body(begin, end, worker) over [0, n) in runs of at least `grain`.
    template <typename Body>
    void run_ranges(int64_t n, int64_t grain, const Body& body) {
        const int64_t most = static_cast<int64_t>(n_threads()) * kPartsPerThread;
        const int64_t size = std::max(std::max<int64_t>(grain, 1), (n + most - 1) / most);
        run((n + size - 1) / size,
            [&](int64_t part, uint32_t worker) { body(part * size, std::min(n, (part + 1) * size), worker); });
    }

    static constexpr int64_t kPartsPerThread = 4;

private:
    using Call = void (*)(const void* context, int64_t part, uint32_t worker);

    void run_region(int64_t n_parts, Call call, const void* context);
    void take_parts(uint64_t region, uint32_t worker);
    void work(uint32_t worker);

    // region number : 32, number of slices : 16, next slice : 16. In one word, so that a slice can only be taken from
    // the region that it was counted for.
    std::atomic<uint64_t> ticket_{0};
    std::atomic<uint32_t> finished_{0};
    std::atomic<bool> stopping_{false};
    Call call_ = nullptr;
    const void* context_ = nullptr;
    int64_t n_parts_ = 0;
    int64_t slice_ = 1;
    std::mutex region_;
    std::vector<std::thread> workers_;
};

}  // namespace kvplane::cpu
