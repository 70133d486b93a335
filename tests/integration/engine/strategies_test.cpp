// What holds for every KV strategy: its configuration runs, it is dense while the text is within its budget, and where the
// rows are changes nothing.
#include <gtest/gtest.h>

#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string folder = std::string(KVPLANE_GOLDEN_DIR) + "/tiny";
const std::string model = folder + "/tiny-gqa-d64-f16.gguf";
constexpr const char* text = "tiny-gqa-d64-f16";

struct Case {
    const char* name;
    std::vector<std::string> small;  // a budget that the text of 150 tokens is far beyond
    double most_read;                // of the past, with that budget
};

class EveryStrategy : public testing::TestWithParam<Case> {
protected:
    static std::string config() { return std::string(KVPLANE_CONFIG_DIR) + "/" + GetParam().name + ".toml"; }
    static std::vector<std::string> small(std::vector<std::string> more = {}) {
        more.insert(more.end(), GetParam().small.begin(), GetParam().small.end());
        return more;
    }
};

TEST_P(EveryStrategy, is_dense_within_its_budget) {
    const GoldenLogits golden(folder, text);
    const auto expected = TestEngine(model, exact()).logits(golden.ids, 70, 0);
    TestEngine test(model, exact({std::string("kv.") + GetParam().name + ".tokens=1000"}), {1, 0}, config());
    EXPECT_LE(largest_difference(test.logits(golden.ids, 70, 0), expected), 1e-4);
    EXPECT_DOUBLE_EQ(test.engine->statistics().share_read(), 1.0);
}

TEST_P(EveryStrategy, reads_no_more_than_its_budget) {
    const GoldenLogits golden(folder, text);
    TestEngine test(model, exact(small()), {1, 0}, config());
    EXPECT_EQ(test.logits(golden.ids, 100, 0).size(), golden.ids.size());
    EXPECT_LE(test.engine->statistics().share_read(), GetParam().most_read);
    EXPECT_GT(test.engine->statistics().share_read(), 0);
}

TEST_P(EveryStrategy, gives_the_same_logits_with_its_rows_in_the_host_tier) {
    const GoldenLogits golden(folder, text);
    const auto expected = TestEngine(model, exact(small()), {1, 0}, config()).logits(golden.ids, 100, 0);
    TestEngine copying(model, exact(tiny_limits(model, 10, small(), 16)), {1, 0}, config());
    EXPECT_LE(largest_difference(copying.logits(golden.ids, 100, 0), expected), 1e-4);
    EXPECT_GT(copying.engine->transfers().at("host to device").bytes, 0u);
}

TEST_P(EveryStrategy, does_not_depend_on_the_chunks_of_the_prompt) {
    const GoldenLogits golden(folder, text);
    const auto expected = TestEngine(model, exact(small()), {1, 0}, config()).logits(golden.ids, 100, 99);
    for (const char* chunk : {"schedule.chunk_tokens=16", "schedule.chunk_tokens=23"}) {
        TestEngine test(model, exact(small({chunk})), {1, 0}, config());
        EXPECT_LE(largest_difference(test.logits(golden.ids, 100, 99), expected), 1e-4) << chunk;
    }
}

TEST_P(EveryStrategy, keeps_sequences_of_a_batch_apart) {
    const GoldenLogits golden(folder, text);
    const std::vector<int32_t> other(golden.ids.rbegin(), golden.ids.rend());
    std::vector<std::vector<int32_t>> alone, together;
    const auto run = [&](TestEngine& test, const std::vector<std::vector<int32_t>>& prompts) {
        std::vector<uint64_t> requests;
        for (const auto& prompt : prompts) {
            GenerationRequest request;
            request.prompt = prompt;
            request.max_tokens = 24;
            request.sampler.temperature = 0;
            requests.push_back(test.engine->submit(request));
        }
        while (test.engine->step()) {
        }
        std::vector<std::vector<int32_t>> found;
        for (uint64_t request : requests) found.push_back(test.engine->tokens(request));
        return found;
    };
    const std::vector<int32_t> first(golden.ids.begin(), golden.ids.begin() + 90);
    const std::vector<int32_t> second(other.begin(), other.begin() + 61);
    for (const auto& prompt : {first, second}) {
        TestEngine test(model, exact(small()), {1, 0}, config());
        alone.push_back(run(test, {prompt})[0]);
    }
    TestEngine test(model, exact(small()), {2, 0}, config());
    EXPECT_EQ(run(test, {first, second}), alone);
}

TEST_P(EveryStrategy, takes_its_budget_by_the_name_that_all_share) {
    const GoldenLogits golden(folder, text);
    TestEngine test(model, exact({"kv.options.share=0.3", "memory.page_tokens=16"}), {1, 0}, config());
    test.logits(golden.ids, 100, 149);
    EXPECT_LE(test.engine->statistics().share_read(), 0.6);
    EXPECT_NE(test.engine->strategy_summary().find("30 % of the tokens"), std::string::npos)
        << test.engine->strategy_summary();
}

// A fork after the prompt's beginning and one among the decoded tokens go on as the text would have.
TEST_P(EveryStrategy, goes_on_in_a_fork_as_in_the_text_itself) {
    const GoldenLogits golden(folder, text);
    const std::span<const int32_t> ids(golden.ids);
    const auto expected = TestEngine(model, exact(small()), {1, 0}, config()).logits(golden.ids, 100, 99);
    TestEngine test(model, exact(small()), {3, 0}, config());
    Engine& engine = *test.engine;
    const auto run = [&] {
        while (engine.step()) {
        }
    };
    std::map<int64_t, std::vector<float>> found;
    const auto keep = [&](int64_t position, std::span<float> row) { found[position].assign(row.begin(), row.end()); };
    const uint64_t prefix = engine.open_text(200);
    engine.feed(prefix, ids.first(75), Feed::prompt_part);
    run();
    const uint64_t whole = engine.fork(prefix, 200);
    engine.forget(prefix);
    engine.feed(whole, ids.subspan(75, 25), Feed::prompt_end, keep, 99);
    engine.feed(whole, ids.subspan(100, 23), Feed::decode, keep);
    run();
    const uint64_t later = engine.fork(whole, 200);
    engine.feed(whole, std::vector<int32_t>(20, 7), Feed::decode);  // must not disturb the fork
    engine.feed(later, ids.subspan(123), Feed::decode, keep);
    run();
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [position, row] : expected) {
        EXPECT_LE(largest_difference(found.at(position), row), 1e-4) << position;
    }
}

INSTANTIATE_TEST_SUITE_P(All, EveryStrategy,
                         testing::Values(Case{"quest", {"kv.quest.tokens=48", "kv.quest.min_pages=1"}, 0.5},
                                         Case{"window", {"kv.window.tokens=40"}, 0.4},
                                         Case{"snapkv", {"kv.snapkv.tokens=24", "kv.snapkv.window=8"}, 0.45},
                                         Case{"pyramidkv", {"kv.pyramidkv.tokens=24", "kv.pyramidkv.window=8"}, 0.45},
                                         Case{"h2o", {"kv.h2o.tokens=40"}, 0.45}),
                         [](const auto& info) { return std::string(info.param.name); });

class DroppingStrategy : public testing::TestWithParam<Case> {};

// What leaves the cache is free memory: for the text that has let go of it, and for one that waits.
TEST_P(DroppingStrategy, gives_pages_back_to_the_tier_and_to_who_waits_for_them) {
    const GoldenLogits golden(folder, text);
    const std::string config = std::string(KVPLANE_CONFIG_DIR) + "/" + GetParam().name + ".toml";
    auto settings = exact(GetParam().small);
    settings.push_back("memory.page_tokens=4");
    const ModelShape shape = Model::open(model)->shape();
    const uint64_t page_bytes = shape.kv_heads * 4 * kvp_row_bytes(KVP_TYPE_F32, shape.head_size);
    const uint64_t pages = 40 * shape.layers;  // of two texts of 150 tokens, 38 pages a layer each, one fits
    settings.push_back("tiers.device.kv_bytes=" + std::to_string(pages * page_bytes));
    settings.push_back("tiers.host.kv_bytes=0");
    TestEngine test(model, settings, {2, 0}, config);
    GenerationRequest request;
    request.prompt.assign(golden.ids.begin(), golden.ids.begin() + 120);
    request.max_tokens = 30;
    const uint64_t first = test.engine->submit(request);
    request.prompt.resize(20);
    request.max_tokens = 20;
    const uint64_t second = test.engine->submit(request);
    for (int i = 0; i < 3; i++) ASSERT_TRUE(test.engine->step());
    EXPECT_LE(test.engine->tiers().at("device").used_bytes, 25 * shape.layers * page_bytes);
    while (test.engine->finish_reason(second) == FinishReason::running) ASSERT_TRUE(test.engine->step());
    EXPECT_EQ(test.engine->finish_reason(first), FinishReason::running) << "the second waited for the first to end";
    while (test.engine->step()) {
    }
    EXPECT_EQ(test.engine->tiers().at("device").used_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, DroppingStrategy,
                         testing::Values(Case{"window", {"kv.window.tokens=24"}, 0},
                                         Case{"snapkv", {"kv.snapkv.tokens=24", "kv.snapkv.window=8"}, 0},
                                         Case{"pyramidkv", {"kv.pyramidkv.tokens=24", "kv.pyramidkv.window=8"}, 0},
                                         Case{"h2o", {"kv.h2o.tokens=24"}, 0}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FullOffload, is_dense_and_moves_every_full_page_of_every_layer_at_each_token) {
    const GoldenLogits golden(folder, text);
    const std::string config = std::string(KVPLANE_CONFIG_DIR) + "/full-offload.toml";
    const auto expected = TestEngine(model, exact()).logits(golden.ids, 100, 0);
    TestEngine test(model, exact({"memory.page_tokens=16", "memory.resident_share=0.5"}), {1, 0}, config);
    EXPECT_LE(largest_difference(test.logits(golden.ids, 100, 0), expected), 1e-4);
    EXPECT_GT(test.engine->statistics().share_moved(), 0.4);
    EXPECT_DOUBLE_EQ(test.engine->statistics().share_read(), 1.0);
    // In place nothing moves, and all of it is in the host tier.
    TestEngine direct(model, exact({"tiers.host.access=direct"}), {1, 0}, config);
    EXPECT_LE(largest_difference(direct.logits(golden.ids, 100, 0), expected), 1e-4);
    EXPECT_EQ(direct.engine->statistics().share_moved(), 0);
    EXPECT_EQ(direct.engine->tiers().at("device").peak_bytes, 0u);
}

// One layer's rows are found two layers before, or by a number.
TEST(Infinigen, reads_the_share_and_the_number_of_rows_that_it_is_told) {
    const GoldenLogits golden(folder, text);
    {  // a plugin has one set of options in a process
        TestEngine share(model, exact({"kv.plugin=infinigen", "kv.infinigen.share=0.4", "kv.infinigen.recent=8"}));
        share.logits(golden.ids, 100, 149);
        EXPECT_NEAR(share.engine->statistics().share_read(), 0.4, 0.01);
    }
    for (const char* ahead : {"1", "2"}) {
        TestEngine fixed(model, exact({"kv.plugin=infinigen", "kv.infinigen.fixed_tokens=20", "kv.infinigen.recent=6",
                                       "kv.infinigen.source=residual_mid", "kv.infinigen.dense_layers=1",
                                       std::string("kv.infinigen.look_ahead=") + ahead}));
        fixed.logits(golden.ids, 100, 149);
        EXPECT_NEAR(fixed.engine->statistics().share_read(), 30 / 124.5, 0.01) << ahead;
        EXPECT_EQ(fixed.engine->dense_layers(), ahead[0] == '1' ? 1u : 2u);
    }
}

}  // namespace
}  // namespace kvplane::test
