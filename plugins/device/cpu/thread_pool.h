// The plugin's threads. A region is a run of items of which whoever is free takes some; the caller works too, and is
// done when all items are.
//
// Items are taken in guided sizes: each thread gets three quarters of its even share in one run, as memory is read
// fastest, then shares of what is left, down to a grain, so that all end at about the same time.
//
// A thread that the system stops in the middle of its items holds up the region for a time slice, which costs a decode
// step more than the thread had helped; one that is stopped while it looks for items will soon be stopped in the middle
// of some. So a worker for which the caller waited longer than it had worked itself, or that took no item for a while
// though it was awake, rests for some milliseconds, and for four times as long each time that it happens again soon:
// beside another busy process the pool is nearly as fast as without that worker, and it finds out by itself when the
// processor is free again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace kvplane::cpu {

class ThreadPool {
public:
    // n_threads counts the caller. `cpus` has the processor that worker i is tied to, from 1 on, or is empty.
    explicit ThreadPool(uint32_t n_threads, const std::vector<int>& cpus = {});
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    uint32_t n_threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

    // body(part, worker) for part in [0, n_parts), worker in [0, n_threads), one part at a time. body must not throw.
    // A second region at the same time (another queue) runs on its caller alone, all of it as worker 0.
    template <typename Body>
    void run(int64_t n_parts, const Body& body) {
        const auto parts = [&](int64_t begin, int64_t end, uint32_t worker) {
            for (int64_t part = begin; part < end; ++part) body(part, worker);
        };
        run_region(n_parts, 1, false, call<decltype(parts)>, &parts);
    }

    // body(begin, end, worker) over [0, n), in guided sizes of multiples of `grain` (but for the end).
    template <typename Body>
    void run_ranges(int64_t n, int64_t grain, const Body& body) {
        run_region(n, grain, true, call<Body>, &body);
    }

    static constexpr int64_t kPartsPerThread = 4;  // for those who cut parts themselves

private:
    using Call = void (*)(const void* context, int64_t begin, int64_t end, uint32_t worker);
    using Clock = std::chrono::steady_clock;

    template <typename Body>
    static void call(const void* context, int64_t begin, int64_t end, uint32_t worker) {
        (*static_cast<const Body*>(context))(begin, end, worker);
    }

    enum class State : uint8_t { sleeps, looks, works };

    struct alignas(64) Worker {
        std::atomic<State> state{State::sleeps};  // as the worker last said: a stopped one says nothing
        std::atomic<bool> rests{false};
        Clock::time_point rests_until{};  // the caller's, as all below
        Clock::duration rest{};           // length of the last one
        std::thread thread;
    };

    void run_region(int64_t n, int64_t grain, bool guided, Call call, const void* context);
    uint32_t ticks_to_take(uint64_t ticket) const;
    uint32_t take_items(uint32_t region, uint32_t worker);  // how many ticks it took
    void wait_for_workers(uint32_t n_ticks, Clock::time_point start);
    void send_to_rest(Clock::time_point now, State stopped);
    void end_rests(Clock::time_point now);
    void work(uint32_t index);

    // region number : 32, number of ticks : 16, next tick : 16. In one word, so that a tick can only be taken from the
    // region that it was counted for. A tick is what is taken at least.
    std::atomic<uint64_t> ticket_{0};
    std::atomic<uint32_t> region_{0};  // what idle workers sleep on
    std::atomic<uint32_t> finished_{0};
    std::atomic<uint32_t> n_sharing_{0};  // threads that guided sizes are for; 0: ticks are taken one by one
    std::atomic<bool> stopping_{false};
    Call call_ = nullptr;
    const void* context_ = nullptr;
    int64_t n_ = 0;
    int64_t tick_ = 1;  // items
    uint32_t n_resting_ = 0;
    Clock::duration alone_{};  // length of the latest regions of which no worker took an item
    std::mutex mutex_;
    std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace kvplane::cpu
