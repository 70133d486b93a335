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

INSTANTIATE_TEST_SUITE_P(All, EveryStrategy,
                         testing::Values(Case{"quest", {"kv.quest.tokens=48", "kv.quest.min_pages=1"}, 0.5},
                                         Case{"window", {"kv.window.tokens=40"}, 0.4},
                                         Case{"snapkv", {"kv.snapkv.tokens=24", "kv.snapkv.window=8"}, 0.45},
                                         Case{"pyramidkv", {"kv.pyramidkv.tokens=24", "kv.pyramidkv.window=8"}, 0.45},
                                         Case{"h2o", {"kv.h2o.tokens=40"}, 0.45}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace kvplane::test
