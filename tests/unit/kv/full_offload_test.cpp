// full-offload brings the full pages of each layer one layer ahead and reads every row, as dense attention does.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "rows_read.h"

namespace kvplane::test {
namespace {

constexpr const char* plugin = "full-offload";

std::vector<int> first(int64_t n) {
    std::vector<int> numbers(static_cast<size_t>(n));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

void expect_all_rows(FakeKvCore& core, uint32_t sequence, int64_t n_past) {
    for (uint32_t layer = 0; layer < core.model.n_layers; layer++) {
        for (uint32_t head = 0; head < core.model.n_kv_heads; head++) {
            EXPECT_EQ(rows_read(core.segments[layer][sequence], head, n_past), first(n_past)) << "layer " << layer;
        }
    }
}

}  // namespace

TEST(FullOffload, brings_every_full_page_of_a_layer_while_the_one_before_computes) {
    for (const int64_t prompt : {1, 63, 64, 65, 127, 128, 300}) {
        FakeKvCore core(plugin_path(plugin), small_model(), {});
        core.open();
        core.prefill(0, prompt, core.plain_rows(prompt));
        EXPECT_TRUE(core.fetches.empty()) << "a prompt streams";
        core.decode(0, core.plain_rows(1));
        expect_all_rows(core, 0, prompt);
        if (prompt < 64) {
            EXPECT_TRUE(core.fetches.empty());
            continue;
        }
        ASSERT_EQ(core.fetches.size(), core.model.n_layers) << prompt;
        for (uint32_t layer = 0; layer < core.model.n_layers; layer++) {
            const FakeFetch& fetch = core.fetches[layer];
            EXPECT_EQ(fetch.layer, layer);
            EXPECT_EQ(fetch.during, layer == 0 ? 0 : layer - 1);  // the first layer's with the step
            for (uint32_t head = 0; head < core.model.n_kv_heads; head++) {
                EXPECT_EQ(rows_read({fetch.segment}, head, prompt), first(prompt / 64 * 64));
            }
        }
    }
}

TEST(FullOffload, fetches_for_the_sequences_of_a_step_that_decode) {
    FakeKvCore core(plugin_path(plugin), small_model(), {});
    for (int i = 0; i < 3; i++) core.open();
    core.prefill(0, 70, core.plain_rows(70));
    core.prefill(2, 200, core.plain_rows(200));
    core.step({{0, KVP_PHASE_DECODE, 1}, {1, KVP_PHASE_PREFILL, 90}, {2, KVP_PHASE_DECODE, 1}}, core.plain_rows(92));
    expect_all_rows(core, 0, 70);
    expect_all_rows(core, 1, 0);
    expect_all_rows(core, 2, 200);
    ASSERT_EQ(core.fetches.size(), 2 * core.model.n_layers);
    for (size_t i = 0; i < core.fetches.size(); i++) {
        EXPECT_EQ(core.fetches[i].sequence, i % 2 == 0 ? 0u : 2u);
        EXPECT_EQ(core.fetches[i].layer, i / 2);
        EXPECT_EQ(rows_read({core.fetches[i].segment}, 0, 200), first(i % 2 == 0 ? 64 : 192));
    }
}

TEST(FullOffload, fetches_nothing_where_the_device_reads_the_host_tier) {
    auto model = small_model();
    model.reads_tiers_in_place = 1;
    FakeKvCore core(plugin_path(plugin), model, {});
    core.open();
    core.prefill(0, 300, core.plain_rows(300));
    core.decode(0, core.plain_rows(1));
    EXPECT_TRUE(core.fetches.empty());
    expect_all_rows(core, 0, 300);
}

TEST(FullOffload, attends_as_dense_attention_does) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    std::mt19937 random(3);
    std::uniform_real_distribution<float> uniform(-1, 1);
    FakeKvCore offloading(plugin_path(plugin), small_model(), {}, &cpu());
    FakeKvCore dense(plugin_path("dense"), small_model(), {}, &cpu());
    offloading.open();
    dense.open();
    for (int64_t position = 0; position < 200;) {
        const int64_t n_rows = position == 0 ? 120 : 1;
        FakeRows rows = dense.plain_rows(n_rows);
        for (auto* values : {&rows.query, &rows.key, &rows.value}) {
            for (float& value : *values) value = uniform(random);
        }
        for (FakeKvCore* core : {&offloading, &dense}) {
            core->step({{0, uint32_t(position == 0 ? KVP_PHASE_PREFILL : KVP_PHASE_DECODE), n_rows}}, rows);
        }
        position += n_rows;
        // Values are below 1, so a sum of 200 weighted ones is off by less than 200 roundings of 1; scores of 16 products by
        // 16 roundings of 4, and weights by twice that. Both programs are off.
        constexpr double bound = 2 * (200 + 2 * 16 * 4) * 0x1p-24;
        for (size_t i = 0; i < dense.attended.size(); i++) {
            ASSERT_NEAR(offloading.attended[i], dense.attended[i], bound) << "position " << position;
        }
    }
}

}  // namespace kvplane::test
