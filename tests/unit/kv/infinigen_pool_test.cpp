#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "pool.h"
#include "small_model.h"

namespace kvplane::infinigen {

namespace {

Pool pool_of(PoolPolicy policy, int64_t n_rows, uint32_t counter_bits = 8, uint32_t n_kv_heads = 1) {
    PoolSettings settings;
    settings.policy = policy;
    settings.counter_bits = counter_bits;
    Pool pool(settings, n_kv_heads);
    pool.append(0, n_rows);
    return pool;
}

void use(Pool& pool, std::vector<int32_t> rows) {
    const auto count = static_cast<int32_t>(rows.size());
    pool.use(rows.data(), &count, rows.size());
}

std::vector<int32_t> chosen(const Pool& pool, int64_t begin, int64_t end, uint32_t n_victims, uint32_t n_heads = 1) {
    std::vector<int32_t> victims(size_t{n_victims} * n_heads, -1);
    EXPECT_TRUE(pool.choose(begin, end, n_victims, victims.data()));
    return victims;
}

}  // namespace

using Victims = std::vector<int32_t>;

TEST(Pool, fifo_takes_the_oldest) {
    Pool pool = pool_of(PoolPolicy::fifo, 10);
    use(pool, {1, 2});
    EXPECT_EQ(chosen(pool, 1, 8, 3), (Victims{1, 2, 3}));
}

TEST(Pool, lru_takes_the_longest_unused) {
    Pool pool = pool_of(PoolPolicy::lru, 10);
    use(pool, {0, 1, 2});
    use(pool, {1});
    EXPECT_EQ(chosen(pool, 0, 6, 4), (Victims{0, 3, 4, 5}));  // 0 and 2 were used at once, 0 is older
}

TEST(Pool, counter_takes_the_least_used_and_of_those_the_oldest) {
    Pool pool = pool_of(PoolPolicy::counter, 10);
    use(pool, {0, 1, 2});
    use(pool, {0, 2});
    use(pool, {0});
    EXPECT_EQ(chosen(pool, 0, 5, 3), (Victims{1, 3, 4}));
    EXPECT_EQ(chosen(pool, 0, 10, 1), (Victims{3}));
}

// Without it lru and counter would let the sinks go first: no selection ever names them, and all is lost with them.
TEST(Pool, rows_that_are_always_read_count_as_used) {
    for (const PoolPolicy policy : {PoolPolicy::lru, PoolPolicy::counter}) {
        Pool pool = pool_of(policy, 10);
        const int32_t selected[] = {4, 5};
        const int32_t count = 2;
        pool.use(selected, &count, 2, 2);
        EXPECT_EQ(chosen(pool, 0, 8, 3), (Victims{2, 3, 6}));
    }
}

TEST(Pool, counters_saturate_and_all_are_halved) {
    Pool pool = pool_of(PoolPolicy::counter, 4, 3);  // full at 7
    for (int i = 0; i < 3; i++) use(pool, {1});
    for (int i = 0; i < 6; i++) use(pool, {0});
    EXPECT_EQ(pool.use_count(0, 0), 6u);
    EXPECT_EQ(pool.use_count(0, 1), 3u);
    use(pool, {0});
    EXPECT_EQ(pool.use_count(0, 0), 3u);
    EXPECT_EQ(pool.use_count(0, 1), 1u);
    for (int i = 0; i < 100; i++) {
        use(pool, {0, 1, 2});
        EXPECT_LT(pool.use_count(0, 0), 7u);
    }
}

TEST(Pool, heads_choose_for_themselves) {
    Pool pool = pool_of(PoolPolicy::counter, 4, 8, 2);
    const int32_t index[] = {0, 1, 2, 3};
    const int32_t counts[] = {2, 2};
    pool.use(index, counts, 2);
    EXPECT_EQ(chosen(pool, 0, 4, 2, 2), (Victims{2, 3, 0, 1}));
}

TEST(Pool, says_no_when_there_are_not_enough_candidates) {
    const Pool pool = pool_of(PoolPolicy::lru, 10);
    int32_t victims[8];
    EXPECT_FALSE(pool.choose(4, 8, 5, victims));
    EXPECT_FALSE(pool.choose(4, 12, 5, victims));
    EXPECT_TRUE(pool.choose(4, 8, 4, victims));
}

TEST(Pool, what_was_chosen_leaves_and_the_rest_stays_in_order) {
    // Rows are known by their age: fifo names the oldest first. After a replacement the survivors must be 0, 4..9.
    Pool pool = pool_of(PoolPolicy::fifo, 10);
    const Victims victims = chosen(pool, 1, 6, 3);
    EXPECT_EQ(victims, (Victims{1, 2, 3}));
    pool.replace(6, 3, victims.data());
    EXPECT_EQ(pool.n_rows(), 7);
    // Places now: 0, 6, 7, 8, 4, 5, 9 (by age). Oldest of all: places 0, 4, 5.
    EXPECT_EQ(chosen(pool, 0, 7, 3), (Victims{0, 4, 5}));
    EXPECT_EQ(chosen(pool, 0, 7, 6), (Victims{0, 1, 2, 3, 4, 5}));
}

TEST(Pool, forgets_rows_that_a_sequence_gave_up) {
    Pool pool = pool_of(PoolPolicy::fifo, 10);
    pool.append(4, 2);
    EXPECT_EQ(pool.n_rows(), 6);
    use(pool, {9});  // a late report of a row that is gone
    EXPECT_EQ(chosen(pool, 3, 6, 1), (Victims{3}));
}

}  // namespace kvplane::infinigen

namespace kvplane::test {

// Through the ABI: a cache of four pages at most, a page leaves whenever it is full.
TEST(InfinigenPool, evicts_distinct_rows_that_are_never_protected) {
    for (const char* policy : {"fifo", "lru", "counter"}) {
        FakeKvCore core(plugin_path("infinigen"), small_model(),
                        {{"pool_tokens", "256"}, {"pool_policy", policy}, {"source", "own_query"}});
        ASSERT_EQ(core.created, KVP_OK);
        EXPECT_EQ(core.needs->pool_tokens, 256u);
        core.open();
        core.prefill(0, 256, core.plain_rows(256));
        std::mt19937 random(7);
        for (int round = 0; round < 4; round++) {
            const auto victims = core.replace_page(0, 0, 128);
            for (uint32_t head = 0; head < 2; head++) {
                std::set<int32_t> distinct(victims.begin() + head * 64, victims.begin() + (head + 1) * 64);
                EXPECT_EQ(distinct.size(), 64u) << policy;
                EXPECT_GE(*distinct.begin(), 4) << policy;  // the sinks
                EXPECT_LT(*distinct.rbegin(), 128) << policy;
            }
            EXPECT_EQ(core.sequences[0].abi.n_cached, 192);
            for (int token = 0; token < 64; token++) {
                core.decode(0, core.plain_rows(1));
                std::vector<int32_t> index(2 * 8);
                for (auto& row : index) row = static_cast<int32_t>(random() % 192);
                const int32_t counts[] = {8, 8};
                for (uint32_t layer = 0; layer < 4; layer++) {
                    ASSERT_EQ(core.table->selected(core.instance, core.sequences[0].abi.state, layer, index.data(),
                                                   counts, 8),
                              KVP_OK);
                }
            }
            EXPECT_EQ(core.sequences[0].abi.n_cached, 256);
        }
    }
}

TEST(InfinigenPool, keeps_the_rows_that_are_used) {
    FakeKvCore core(plugin_path("infinigen"), small_model(), {{"pool_tokens", "256"}, {"source", "own_query"}});
    core.open();
    core.prefill(0, 256, core.plain_rows(256));
    std::vector<int32_t> index(2 * 60);
    std::iota(index.begin(), index.begin() + 60, 10);
    std::iota(index.begin() + 60, index.end(), 10);
    const int32_t counts[] = {60, 60};
    for (uint32_t layer = 0; layer < 4; layer++) {
        core.table->selected(core.instance, core.sequences[0].abi.state, layer, index.data(), counts, 60);
    }
    for (int32_t victim : core.replace_page(0, 0, 192)) {
        EXPECT_TRUE(victim < 10 || victim >= 70) << victim;
    }
}

TEST(InfinigenPool, sinks_may_be_given_up_when_asked_to) {
    FakeKvCore core(plugin_path("infinigen"), small_model(),
                    {{"pool_tokens", "256"}, {"pool_policy", "fifo"}, {"protect_sinks", "false"}});
    core.open();
    core.prefill(0, 256, core.plain_rows(256));
    EXPECT_EQ(core.replace_page(0, 0, 128).front(), 0);
}

TEST(InfinigenPool, refuses_when_too_few_rows_may_leave) {
    FakeKvCore core(plugin_path("infinigen"), small_model(), {{"pool_tokens", "256"}});
    core.open();
    core.prefill(0, 256, core.plain_rows(256));
    EXPECT_THROW(core.replace_page(0, 0, 64), kvp::Passed);  // 60 beside the sinks
    EXPECT_NE(core.error().find("64 rows must leave the pool, only 60 may"), std::string::npos);
}

}  // namespace kvplane::test
