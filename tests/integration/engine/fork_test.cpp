// Texts that share a beginning, and texts that go back: each must come out as if it had been computed alone from its first
// token, wherever its rows are.
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string model = std::string(KVPLANE_GOLDEN_DIR) + "/tiny/tiny-gqa-f32.gguf";  // 3 layers, 2 KV heads of 16
constexpr double kSameSums = 1e-4;  // what another order of the same f32 sums may change

using Logits = std::map<int64_t, std::vector<float>>;

std::vector<int32_t> ids(int32_t seed, int64_t length) {
    std::vector<int32_t> made;
    for (int64_t i = 0; i < length; ++i)
        made.push_back(static_cast<int32_t>((seed * 7919 + i * i * 31 + i * 17) % 270));
    return made;
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

Engine::OnLogits into(Logits& found) {
    return [&found](int64_t position, std::span<float> row) { found[position].assign(row.begin(), row.end()); };
}

void run(Engine& engine) {
    while (engine.step()) {
    }
}

struct Case {
    const char* name;
    std::vector<std::string> settings;
};

std::vector<std::string> infinigen(std::vector<std::string> more = {}) {
    for (const char* setting : {"kv.plugin=infinigen", "kv.infinigen.recent=8", "kv.infinigen.min_tokens=8"}) {
        more.push_back(setting);
    }
    return more;
}

std::vector<std::string> two_tiers_in_place() {
    auto made = exact(tiny_limits(model, 8));
    made.push_back("tiers.host.access=direct");
    return made;
}

class Fork : public testing::TestWithParam<Case> {
protected:
    Logits alone(const std::vector<int32_t>& text, int64_t prompt, int64_t first) {
        return TestEngine(model, GetParam().settings).logits(text, prompt, first);
    }
};

TEST_P(Fork, many_continuations_of_one_prefix_decode_together_as_each_does_alone) {
    for (const int64_t n_prefix : {int64_t{30}, int64_t{32}, int64_t{33}}) {  // inside a page of 4, and at its border
        TestEngine test(model, GetParam().settings, {6, 0});
        Engine& engine = *test.engine;
        const auto shots = ids(1, n_prefix);
        const auto question = ids(2, 21);
        const uint64_t prefix = engine.open_text(100);
        engine.feed(prefix, shots, Feed::prompt_part);
        run(engine);
        const uint64_t asked = engine.fork(prefix, 100);
        ASSERT_NE(asked, 0u);
        engine.feed(asked, question, Feed::prompt_end);
        run(engine);
        std::vector<Logits> found(3);
        std::vector<uint64_t> choices;
        for (int32_t i = 0; i < 3; ++i) {
            choices.push_back(engine.fork(asked, 100));
            ASSERT_NE(choices.back(), 0u);
            engine.feed(choices.back(), ids(10 + i, 5 + 6 * i), Feed::decode, into(found[static_cast<size_t>(i)]));
        }
        engine.forget(asked);
        run(engine);
        for (int32_t i = 0; i < 3; ++i) {
            const auto whole = joined(joined(shots, question), ids(10 + i, 5 + 6 * i));
            const int64_t n_prompt = n_prefix + 21;
            const Logits expected = alone(whole, n_prompt, n_prompt);
            EXPECT_LE(largest_difference(found[static_cast<size_t>(i)], expected), kSameSums)
                << "prefix " << n_prefix << " choice " << i;
            engine.forget(choices[static_cast<size_t>(i)]);
        }
        EXPECT_EQ(engine.tokens(prefix), shots);
    }
}

TEST_P(Fork, a_text_and_its_fork_do_not_see_each_others_tokens) {
    TestEngine test(model, GetParam().settings, {2, 0});
    Engine& engine = *test.engine;
    const auto prompt = ids(3, 45);
    const uint64_t a = engine.open_text(120);
    engine.feed(a, prompt, Feed::prompt_end);
    run(engine);
    const uint64_t b = engine.fork(a, 120);
    ASSERT_NE(b, 0u);
    Logits of_a, of_b;
    engine.feed(a, ids(4, 20), Feed::decode, into(of_a));
    engine.feed(b, ids(5, 20), Feed::decode, into(of_b));
    run(engine);
    EXPECT_LE(largest_difference(of_a, alone(joined(prompt, ids(4, 20)), 45, 45)), kSameSums);
    EXPECT_LE(largest_difference(of_b, alone(joined(prompt, ids(5, 20)), 45, 45)), kSameSums);
}

TEST_P(Fork, a_rewound_text_goes_on_as_if_the_rest_had_never_been) {
    TestEngine test(model, GetParam().settings, {2, 0});
    Engine& engine = *test.engine;
    const auto prompt = ids(6, 41);
    const uint64_t text = engine.open_text(120);
    engine.feed(text, prompt, Feed::prompt_end);
    engine.feed(text, ids(7, 40), Feed::decode);
    run(engine);
    const uint64_t witness = engine.fork(text, 120);  // its rows must stay
    ASSERT_NE(witness, 0u);
    for (const int64_t length : {int64_t{63}, int64_t{60}, int64_t{41}}) {
        engine.rewind(text, length);
        Logits found;
        engine.feed(text, ids(8, 12), Feed::decode, into(found));
        run(engine);
        auto whole = joined(prompt, ids(7, 40));
        whole.resize(static_cast<size_t>(length));
        whole = joined(whole, ids(8, 12));
        EXPECT_EQ(engine.tokens(text), whole);
        EXPECT_LE(largest_difference(found, alone(whole, 41, length)), kSameSums) << "to " << length;
    }
    Logits of_witness;
    engine.feed(witness, ids(9, 9), Feed::decode, into(of_witness));
    run(engine);
    EXPECT_LE(largest_difference(of_witness, alone(joined(joined(prompt, ids(7, 40)), ids(9, 9)), 41, 81)), kSameSums);
}

TEST_P(Fork, a_fork_that_samples_gives_what_its_whole_prompt_gives) {
    TestEngine test(model, GetParam().settings, {3, 0});
    Engine& engine = *test.engine;
    const uint64_t prefix = engine.open_text(60);
    engine.feed(prefix, ids(11, 37), Feed::prompt_part);
    run(engine);
    GenerationRequest request;
    request.prompt = ids(12, 14);
    request.max_tokens = 20;
    const uint64_t forked = engine.fork(prefix, request);
    ASSERT_NE(forked, 0u);
    run(engine);
    request.prompt = joined(ids(11, 37), ids(12, 14));
    TestEngine other(model, GetParam().settings);
    const uint64_t whole = other.engine->submit(request);
    run(*other.engine);
    EXPECT_EQ(engine.tokens(forked), other.engine->tokens(whole));
    EXPECT_EQ(engine.finish_reason(forked), FinishReason::length);
}

INSTANTIATE_TEST_SUITE_P(
    Pipelines, Fork,
    testing::Values(Case{"in_place", exact({"memory.page_tokens=4"})}, Case{"in_place_two_tiers", two_tiers_in_place()},
                    Case{"copying", exact(tiny_limits(model, 24))},
                    Case{"copying_without_spilling", exact({"memory.page_tokens=4", "tiers.host.access=copy"})},
                    Case{"infinigen", exact(infinigen({"memory.page_tokens=4"}))},
                    Case{"infinigen_copying", exact(tiny_limits(model, 24, infinigen()))},
                    Case{"infinigen_own_query", exact(infinigen({"kv.infinigen.source=own_query"}))}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ForkBudget, shared_pages_count_once) {
    // 3 layers, pages of 4 rows of 2 heads of 16 f32 pairs: 40 tokens are 30 pages, 8 more 6 pages a text.
    const uint64_t page_bytes = 2 * 4 * kvp_row_bytes(KVP_TYPE_F32, 16);
    TestEngine test(model,
                    exact({"memory.page_tokens=4", "tiers.host.kv_bytes=0",
                           "tiers.device.kv_bytes=" + std::to_string((30 + 4 * 6) * page_bytes)}),
                    {8, 0});
    Engine& engine = *test.engine;
    const uint64_t prefix = engine.open_text(48);
    engine.feed(prefix, ids(1, 40), Feed::prompt_part);
    run(engine);
    std::vector<uint64_t> forks;
    for (int i = 0; i < 3; ++i) {
        forks.push_back(engine.fork(prefix, 48));
        ASSERT_NE(forks.back(), 0u) << i;
    }
    EXPECT_EQ(engine.fork(prefix, 48), 0u);  // a normal answer
    for (size_t i = 0; i < 3; ++i) engine.feed(forks[i], ids(2, 8), Feed::prompt_end);
    run(engine);
    EXPECT_EQ(engine.tiers().at("device").peak_bytes, (30 + 3 * 6) * page_bytes);
    engine.forget(prefix);
    // The rows that the forks share stay; a text that goes back below them would need them twice.
    EXPECT_THROW(engine.rewind(forks[0], 3), Error);
    EXPECT_EQ(engine.tokens(forks[0]).size(), 48u);
    engine.forget(forks[1]);
    engine.forget(forks[2]);
    engine.rewind(forks[0], 3);
    EXPECT_EQ(engine.tokens(forks[0]).size(), 3u);
}

TEST(ForkRefusal, says_why) {
    TestEngine test(model, exact(infinigen({"memory.page_tokens=4"})), {2, 0});
    Engine& engine = *test.engine;
    const uint64_t text = engine.open_text(64);
    engine.feed(text, ids(1, 30), Feed::prompt_end);
    EXPECT_THROW(engine.feed(text, ids(1, 3), Feed::prompt_part), Error);
    EXPECT_THROW(engine.feed(text, ids(1, 40), Feed::decode), Error);
    engine.feed(text, ids(1, 3), Feed::decode);
    run(engine);
    EXPECT_THROW(engine.rewind(text, 34), Error);
    try {
        engine.rewind(text, 20);  // into the prompt, whose column sums infinigen cannot take back
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::plugin);
        EXPECT_NE(std::string(error.what()).find("fork the text"), std::string::npos) << error.what();
    }
    engine.rewind(text, 31);
    EXPECT_EQ(engine.tokens(text).size(), 31u);
}

TEST(ForkPool, rows_that_left_do_not_come_back_and_a_fork_keeps_its_own) {
    const auto settings = exact({"kv.plugin=infinigen", "kv.infinigen.pool_policy=lru", "kv.infinigen.pool_tokens=64",
                                 "kv.infinigen.recent=8", "kv.infinigen.min_tokens=8", "memory.page_tokens=8",
                                 "schedule.chunk_tokens=16"});
    const auto prompt = ids(20, 60);
    const auto a_tokens = ids(21, 50), b_tokens = ids(22, 50);
    TestEngine test(model, settings, {2, 0});
    Engine& engine = *test.engine;
    const uint64_t a = engine.open_text(120);
    engine.feed(a, prompt, Feed::prompt_end);
    run(engine);
    const uint64_t b = engine.fork(a, 120);
    ASSERT_NE(b, 0u);
    Logits of_a, of_b;
    engine.feed(a, a_tokens, Feed::decode, into(of_a));
    engine.feed(b, b_tokens, Feed::decode, into(of_b));
    run(engine);
    EXPECT_THROW(engine.rewind(a, 61), Error);
    const Logits alone_a = TestEngine(model, settings).logits(joined(prompt, a_tokens), 60, 60);
    const Logits alone_b = TestEngine(model, settings).logits(joined(prompt, b_tokens), 60, 60);
    EXPECT_LE(largest_difference(of_a, alone_a), kSameSums);
    EXPECT_LE(largest_difference(of_b, alone_b), kSameSums);
    EXPECT_GT(engine.statistics().rows_evicted, 0u);
}

}  // namespace
}  // namespace kvplane::test
