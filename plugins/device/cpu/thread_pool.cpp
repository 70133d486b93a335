#include "thread_pool.h"

#include <immintrin.h>
#include <pthread.h>

#include <algorithm>

namespace kvplane::cpu {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kMaxTicks = 0xFFFF;
// How long an idle thread looks for work before it sleeps: longer than the serial work between two regions of a decode
// step, far shorter than a time slice.
constexpr auto kSpin = 100us;
// How much longer than it worked itself the caller waits for a worker before it takes it for stopped.
constexpr auto kPatience = 1ms;
// How long the caller does all items of all regions before it takes workers that should look for some for stopped.
constexpr auto kAbsence = 200us;
constexpr auto kShortestRest = 5ms;
// A rest is four times as long as the last one, and half as long for each of these that the worker has worked since:
// beside a busy process it is stopped again within some time slices, by chance it hardly ever is.
constexpr auto kHalving = 50ms;
constexpr auto kLongestRest = 1280ms;

constexpr uint32_t region_of(uint64_t ticket) {
    return static_cast<uint32_t>(ticket >> 32);
}
constexpr uint32_t ticks_of(uint64_t ticket) {
    return static_cast<uint32_t>(ticket >> 16 & 0xFFFF);
}
constexpr uint32_t next_of(uint64_t ticket) {
    return static_cast<uint32_t>(ticket & 0xFFFF);
}

// Spins until done() or the time is over; whether done.
template <typename Done>
bool spin(std::chrono::steady_clock::duration time, const Done& done) {
    constexpr int kLooksPerClock = 32;
    const auto end = std::chrono::steady_clock::now() + time;
    do {
        for (int i = 0; i < kLooksPerClock; ++i) {
            if (done()) return true;
            _mm_pause();
        }
    } while (std::chrono::steady_clock::now() < end);
    return done();
}

void tie(std::thread& thread, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);  // a wish: without it the thread may move
}

}  // namespace

ThreadPool::ThreadPool(uint32_t n_threads, const std::vector<int>& cpus) {
    workers_.reserve(n_threads);
    for (uint32_t i = 1; i < n_threads; ++i) workers_.push_back(std::make_unique<Worker>());
    for (uint32_t i = 1; i < n_threads; ++i) {
        try {
            std::thread& thread = workers_[i - 1]->thread = std::thread([this, i] { work(i); });
            if (i < cpus.size()) tie(thread, cpus[i]);
        } catch (...) {  // the system grants fewer threads: go on with those
            workers_.resize(i - 1);
            break;
        }
    }
}

ThreadPool::~ThreadPool() {
    stopping_ = true;
    for (auto& worker : workers_) {
        worker->rests = false;
        worker->rests.notify_one();
    }
    region_.fetch_add(1, std::memory_order_release);
    region_.notify_all();
    for (auto& worker : workers_) worker->thread.join();
}

void ThreadPool::run_region(int64_t n, int64_t grain, bool guided, Call call, const void* context) {
    if (n <= 0) return;
    grain = std::max<int64_t>(grain, 1);
    std::unique_lock lock(mutex_, std::defer_lock);
    if (workers_.empty() || n <= grain || !lock.try_lock()) {
        call(context, 0, n, 0);
        return;
    }
    const auto start = Clock::now();
    if (n_resting_ > 0) end_rests(start);
    if (n_resting_ == workers_.size()) {
        call(context, 0, n, 0);
        return;
    }
    call_ = call;
    context_ = context;
    n_ = n;
    tick_ = grain * ((n + grain * kMaxTicks - 1) / (grain * kMaxTicks));
    n_sharing_.store(guided ? n_threads() - n_resting_ : 0, std::memory_order_relaxed);
    finished_.store(0, std::memory_order_relaxed);
    const auto n_ticks = static_cast<uint32_t>((n + tick_ - 1) / tick_);
    const uint32_t region = region_.load(std::memory_order_relaxed) + 1;
    ticket_.store(uint64_t{region} << 32 | uint64_t{n_ticks} << 16, std::memory_order_release);
    region_.store(region, std::memory_order_release);
    region_.notify_all();
    const uint32_t mine = take_items(region, 0);
    if (mine == n_ticks) {
        const auto now = Clock::now();
        alone_ += now - start;
        if (alone_ > kAbsence) {
            send_to_rest(now, State::looks);
            alone_ = {};
        }
        return;
    }
    alone_ = {};
    if (finished_.load(std::memory_order_acquire) != n_ticks) wait_for_workers(n_ticks, start);
}

// If the ticket is old by now, so may be the answer; the ticket is then not taken.
uint32_t ThreadPool::ticks_to_take(uint64_t ticket) const {
    const uint32_t sharing = n_sharing_.load(std::memory_order_relaxed);
    if (sharing == 0) return 1;
    const uint32_t first_run = ticks_of(ticket) * 3 / (4 * sharing);
    if (next_of(ticket) < first_run * sharing) return first_run;
    return std::max(1u, (ticks_of(ticket) - next_of(ticket)) / (2 * sharing));
}

uint32_t ThreadPool::take_items(uint32_t region, uint32_t worker) {
    uint32_t n_taken = 0;
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (region_of(ticket) == region && next_of(ticket) < ticks_of(ticket)) {
        const uint32_t taken = ticks_to_take(ticket);
        if (!ticket_.compare_exchange_weak(ticket, ticket + taken, std::memory_order_acq_rel,
                                           std::memory_order_acquire)) {
            continue;
        }
        const int64_t begin = next_of(ticket) * tick_;
        call_(context_, begin, std::min(n_, begin + taken * tick_), worker);
        n_taken += taken;
        const uint32_t done = finished_.fetch_add(taken, std::memory_order_acq_rel) + taken;
        if (done == ticks_of(ticket) && worker != 0) finished_.notify_one();
        ticket = ticket_.load(std::memory_order_acquire);
    }
    return n_taken;
}

void ThreadPool::wait_for_workers(uint32_t n_ticks, Clock::time_point start) {
    const auto all_done = [&] { return finished_.load(std::memory_order_acquire) == n_ticks; };
    const auto waits_since = Clock::now();
    if (spin(waits_since - start + kPatience, all_done)) return;
    const auto now = Clock::now();
    send_to_rest(now, State::works);
    for (uint32_t seen = finished_.load(); seen != n_ticks; seen = finished_.load(std::memory_order_acquire)) {
        finished_.wait(seen, std::memory_order_acquire);
    }
}

// Those that have been stopped in the state `stopped`.
void ThreadPool::send_to_rest(Clock::time_point now, State stopped) {
    for (auto& worker : workers_) {
        if (worker->rests.load(std::memory_order_relaxed)) continue;
        if (worker->state.load(std::memory_order_relaxed) != stopped) continue;
        const auto halvings = std::min<int64_t>((now - worker->rests_until) / kHalving, 62);
        worker->rest =
            std::clamp<Clock::duration>(4 * worker->rest / (int64_t{1} << halvings), kShortestRest, kLongestRest);
        worker->rests_until = now + worker->rest;
        worker->rests.store(true, std::memory_order_relaxed);
        ++n_resting_;
    }
}

void ThreadPool::end_rests(Clock::time_point now) {
    for (auto& worker : workers_) {
        if (!worker->rests.load(std::memory_order_relaxed) || now < worker->rests_until) continue;
        worker->rests.store(false, std::memory_order_release);
        worker->rests.notify_one();
        --n_resting_;
    }
}

void ThreadPool::work(uint32_t index) {
    Worker& self = *workers_[index - 1];
    uint32_t seen = 0;
    while (!stopping_.load(std::memory_order_acquire)) {
        if (self.rests.load(std::memory_order_acquire)) {
            self.state.store(State::sleeps, std::memory_order_relaxed);
            self.rests.wait(true, std::memory_order_acquire);
            continue;
        }
        self.state.store(State::looks, std::memory_order_relaxed);
        const auto comes = [&] { return region_.load(std::memory_order_acquire) != seen; };
        if (!spin(kSpin, comes)) {
            self.state.store(State::sleeps, std::memory_order_relaxed);
            region_.wait(seen, std::memory_order_acquire);
            continue;
        }
        seen = region_.load(std::memory_order_acquire);
        self.state.store(State::works, std::memory_order_relaxed);
        take_items(seen, index);
    }
}

}  // namespace kvplane::cpu
