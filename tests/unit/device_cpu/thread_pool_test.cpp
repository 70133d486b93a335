#include "thread_pool.h"

#include <gtest/gtest.h>

#include <map>

namespace kvplane::cpu {
namespace {

using namespace std::chrono_literals;

TEST(ThreadPool, runs_every_item_once_whatever_the_numbers) {
    for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
        ThreadPool pool(threads);
        ASSERT_EQ(pool.n_threads(), threads);
        for (const int64_t n : {0, 1, 2, 7, 64, 1000, 200000}) {
            for (const int64_t grain : {1, 2, 5, 3000}) {
                std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
                pool.run_ranges(n, grain, [&](int64_t begin, int64_t end, uint32_t worker) {
                    EXPECT_LT(worker, threads);
                    EXPECT_TRUE(begin % grain == 0 && (end % grain == 0 || end == n)) << begin << " " << end;
                    for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
                });
                for (const auto& count : runs) ASSERT_EQ(count, 1) << threads << " " << n << " " << grain;
            }
            std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
            pool.run(n, [&](int64_t part, uint32_t) { ++runs[static_cast<size_t>(part)]; });
            for (const auto& count : runs) ASSERT_EQ(count, 1) << threads << " " << n;
        }
    }
}

TEST(ThreadPool, takes_long_runs_first_and_short_ones_last) {
    ThreadPool pool(2);
    std::mutex mutex;
    std::map<int64_t, int64_t> sizes;  // by where they begin
    pool.run_ranges(1000, 1, [&](int64_t begin, int64_t end, uint32_t) {
        std::lock_guard lock(mutex);
        sizes[begin] = end - begin;
    });
    EXPECT_EQ(sizes.begin()->second, 375);  // three quarters of half
    EXPECT_EQ(std::next(sizes.begin())->second, 375);
    EXPECT_EQ(sizes.rbegin()->second, 1);
    EXPECT_LE(sizes.size(), 40u);
}

TEST(ThreadPool, runs_a_second_region_on_its_caller) {
    ThreadPool pool(3);
    std::atomic<int> inner{0};
    pool.run(3, [&](int64_t, uint32_t) {
        pool.run(5, [&](int64_t, uint32_t worker) {
            EXPECT_EQ(worker, 0u);
            ++inner;
        });
    });
    EXPECT_EQ(inner, 15);
}

TEST(ThreadPool, lets_a_worker_rest_that_holds_the_region_up_and_takes_it_back) {
    ThreadPool pool(2);
    // A region in which each thread has a part, if both take part at all.
    const auto workers_of_region = [&](std::chrono::milliseconds worker_sleeps) {
        std::atomic<bool> worker_came{false};
        pool.run(2, [&](int64_t, uint32_t worker) {
            if (worker != 0) {
                worker_came = true;
                std::this_thread::sleep_for(worker_sleeps);
                return;
            }
            const auto end = std::chrono::steady_clock::now() + 3ms;
            while (!worker_came && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        });
        return worker_came.load() ? 2 : 1;
    };
    const auto comes_within = [&](std::chrono::milliseconds time) {
        const auto end = std::chrono::steady_clock::now() + time;
        while (std::chrono::steady_clock::now() < end) {
            if (workers_of_region(0ms) == 2) return true;
        }
        return false;
    };
    ASSERT_TRUE(comes_within(10s));
    bool rests = false;
    for (int i = 0; i < 20 && !rests; ++i) {  // on a busy machine a rest may be over before this thread looks
        while (workers_of_region(30ms) == 1) {
        }
        rests = workers_of_region(0ms) == 1;
    }
    EXPECT_TRUE(rests) << "the worker should rest";
    EXPECT_TRUE(comes_within(10s)) << "the worker should have come back";
}

}  // namespace
}  // namespace kvplane::cpu
