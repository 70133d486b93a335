// compat = "artifact": the eviction of the published evaluator, against an independent program's
// (tests/reference/published_pool.py), and through the ABI.
#include <gtest/gtest.h>

#include <cstring>

#include "published_eviction.h"
#include "rows_read.h"
#include "support/golden.h"

namespace kvplane::infinigen {

namespace {

class PublishedGolden : public testing::TestWithParam<const char*> {};

}  // namespace

TEST_P(PublishedGolden, masks_the_rows_that_the_evaluator_masks) {
    const nlohmann::json golden = test::read_golden("published-" + std::string(GetParam()) + ".json");
    PoolSettings settings;
    settings.policy = golden["policy"] == "lru" ? PoolPolicy::lru : PoolPolicy::counter;
    settings.tokens = golden["limit"];
    const uint32_t n_heads = golden["heads"];
    PublishedEviction eviction(settings, 0, n_heads);
    int64_t n_rows = golden["prompt"];
    eviction.append(0, n_rows);
    for (const nlohmann::json& step : golden["steps"]) {
        eviction.append(n_rows++, 1);
        std::vector<int32_t> index, counts;
        for (const nlohmann::json& selected : step["selected"]) {
            for (const int32_t row : selected) index.push_back(row);
            counts.push_back(static_cast<int32_t>(selected.size()));
        }
        eviction.use(index.data(), counts.data(), index.size() / n_heads);
        for (uint32_t head = 0; head < n_heads; head++) {
            ASSERT_EQ(eviction.masked(head), step["masked"][head].get<std::vector<int32_t>>())
                << n_rows << " rows, KV head " << head;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Policies, PublishedGolden, testing::Values("lru", "counter"),
                         [](const auto& info) { return std::string(info.param); });

TEST(PublishedEviction, never_masks_rows_that_every_step_reads) {
    PoolSettings settings;
    settings.tokens = 10;
    PublishedEviction eviction(settings, 3, 1);
    eviction.append(0, 20);
    const int32_t selected[] = {4, 5};
    const int32_t count = 2;
    eviction.use(selected, &count, 2);
    EXPECT_EQ(eviction.masked(0), (std::vector<int32_t>{3}));
}

TEST(PublishedEviction, forgets_masked_rows_that_a_sequence_gave_up) {
    PoolSettings settings;
    settings.tokens = 10;
    PublishedEviction eviction(settings, 5, 1);
    eviction.append(0, 20);
    const int32_t selected = 8, count = 1;
    eviction.use(&selected, &count, 1);
    ASSERT_EQ(eviction.masked(0), (std::vector<int32_t>{5}));
    eviction.append(5, 0);
    EXPECT_TRUE(eviction.masked(0).empty());
}

}  // namespace kvplane::infinigen

namespace kvplane::test {

namespace {

const FakeHost::Options options = {{"preset", "artifact"},     {"compat", "artifact"}, {"pool_tokens", "64"},
                                   {"source", "own_query"},    {"dense_layers", "0"},  {"fixed_tokens", "8"},
                                   {"pool_policy", "counter"}, {"ratio", "1"}};

// A text of 100 tokens whose row 7 has the highest score by far.
void open_text(FakeKvCore& core, FakeRows& next) {
    core.open();
    FakeRows rows = core.plain_rows(100);
    const size_t width = size_t{core.model.n_kv_heads} * core.model.head_size;
    for (size_t i = 0; i < width; i++) rows.key[7 * width + i] = 1;
    for (float& value : rows.query) value = 1;
    core.prefill(0, 100, rows);
    next = core.plain_rows(1);
    for (float& value : next.query) value = 1;
}

bool reads(FakeKvCore& core, uint32_t head, int row) {
    const auto rows = rows_read(core.segments[0][0], head, core.sequences[0].abi.n_cached - 1);
    return std::find(rows.begin(), rows.end(), row) != rows.end();
}

}  // namespace

TEST(InfinigenPublished, a_masked_row_is_not_selected_and_none_leaves) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    FakeKvCore core(plugin_path("infinigen"), small_model(), options, &cpu());
    ASSERT_EQ(core.created, KVP_OK) << core.error();
    EXPECT_EQ(core.needs->pool_tokens, 0u);
    FakeRows next;
    open_text(core, next);
    core.decode(0, next);
    EXPECT_TRUE(reads(core, 0, 7));
    EXPECT_TRUE(reads(core, 1, 7));
    // Head 0 uses every row but row 7, head 1 every row but row 3.
    std::vector<int32_t> index, counts;
    for (const int32_t left_out : {7, 3}) {
        for (int32_t row = 0; row < 100; row++) {
            if (row != left_out) index.push_back(row);
        }
        counts.push_back(99);
    }
    ASSERT_EQ(core.table->selected(core.instance, core.sequences[0].abi.state, 0, index.data(), counts.data(), 99),
              KVP_OK);
    core.decode(0, next);
    EXPECT_FALSE(reads(core, 0, 7));
    EXPECT_TRUE(reads(core, 1, 7));
    EXPECT_EQ(core.sequences[0].abi.n_cached, 102);
}

TEST(InfinigenPublished, fifo_really_evicts_as_its_published_figures_do) {
    FakeHost::Options fifo = options;
    fifo["pool_policy"] = "fifo";
    const FakeKvCore core(plugin_path("infinigen"), small_model(), fifo);
    ASSERT_EQ(core.created, KVP_OK) << core.error();
    EXPECT_EQ(core.needs->pool_tokens, 64u);
}

TEST(InfinigenPublished, is_refused_without_a_limit_and_with_centroids) {
    FakeHost::Options no_limit = options;
    no_limit["pool_tokens"] = "0";
    const FakeKvCore unlimited(plugin_path("infinigen"), small_model(), no_limit);
    EXPECT_EQ(unlimited.created, KVP_ERROR_INVALID);
    EXPECT_NE(unlimited.error().find("set pool_tokens"), std::string::npos) << unlimited.error();
    FakeHost::Options centroids = options;
    centroids["centroids"] = "on";
    const FakeKvCore shown(plugin_path("infinigen"), small_model(), centroids);
    EXPECT_EQ(shown.created, KVP_ERROR_INVALID);
    EXPECT_NE(shown.error().find("centroids = \"off\""), std::string::npos) << shown.error();
}

}  // namespace kvplane::test
