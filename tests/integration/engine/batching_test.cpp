// Sequences of unequal length in one step: each must come out as if it were alone.
#include <gtest/gtest.h>

#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string model = std::string(KVPLANE_GOLDEN_DIR) + "/tiny/tiny-gqa-f32.gguf";

std::vector<int32_t> prompt(int32_t seed, int32_t length) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < length; ++i) {
        ids.push_back(static_cast<int32_t>((seed * 7919 + i * i * 31 + i * 17) % 270));
    }
    return ids;
}

GenerationRequest request(int32_t seed, int32_t length, int64_t max_tokens) {
    GenerationRequest made;
    made.prompt = prompt(seed, length);
    made.max_tokens = max_tokens;
    return made;
}

std::vector<int32_t> alone(const std::vector<std::string>& settings, GenerationRequest one) {
    TestEngine test(model, settings);
    const uint64_t id = test.engine->submit(std::move(one));
    while (test.engine->step()) {
    }
    return test.engine->tokens(id);
}

class Batching : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Batching, ragged_sequences_give_what_each_gives_alone) {
    const int32_t lengths[] = {1, 3, 4, 5, 63, 64, 65, 90};
    std::vector<uint64_t> ids;
    std::vector<std::vector<int32_t>> expected;
    for (int32_t length : lengths) expected.push_back(alone(GetParam(), request(length, length, 20 + length % 7)));
    TestEngine test(model, GetParam(), {8, 0});
    for (int32_t length : lengths) {
        ids.push_back(test.engine->submit(request(length, length, 20 + length % 7)));
        test.engine->step();  // the earlier ones are already decoding when the later ones arrive
    }
    while (test.engine->step()) {
    }
    for (size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(test.engine->tokens(ids[i]), expected[i]) << "length " << lengths[i];
        EXPECT_EQ(test.engine->finish_reason(ids[i]), FinishReason::length);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Pipelines, Batching,
    testing::Values(exact(), exact(tiny_limits(model, 40)),
                    exact({"kv.plugin=infinigen", "kv.infinigen.recent=8", "kv.infinigen.min_tokens=8"}),
                    exact(tiny_limits(model, 40,
                                      {"kv.plugin=infinigen", "kv.infinigen.recent=8", "kv.infinigen.min_tokens=8"}))));

TEST(Batching, a_sequence_that_has_no_room_now_waits_until_one_ends) {
    auto settings = exact(tiny_limits(model, 8));  // tails of two sequences do not fit beside the staging pages
    TestEngine test(model, settings, {8, 0});
    const uint64_t first = test.engine->submit(request(1, 50, 5));
    const uint64_t second = test.engine->submit(request(2, 50, 5));
    while (test.engine->step()) {
    }
    EXPECT_EQ(test.engine->tokens(first), alone(settings, request(1, 50, 5)));
    EXPECT_EQ(test.engine->tokens(second), alone(settings, request(2, 50, 5)));
}

TEST(Batching, pages_that_are_away_are_found_after_the_sequence_that_made_room_scarce_has_ended) {
    auto settings = exact(tiny_limits(model, 40));  // 3 layers
    TestEngine test(model, settings, {8, 0});
    const uint64_t first = test.engine->submit(request(1, 100, 3));
    const uint64_t second = test.engine->submit(request(2, 30, 24));  // goes on when the first has ended
    for (int i = 0; i < 8; ++i) test.engine->step();
    ASSERT_EQ(test.engine->finish_reason(first), FinishReason::length);
    ASSERT_EQ(test.engine->finish_reason(second), FinishReason::running);
    const uint64_t third = test.engine->submit(request(3, 4, 2));  // with it everything would fit again
    while (test.engine->step()) {
    }
    EXPECT_EQ(test.engine->tokens(second), alone(settings, request(2, 30, 24)));
    EXPECT_EQ(test.engine->tokens(third), alone(settings, request(3, 4, 2)));
}

TEST(Batching, sequences_are_admitted_only_with_room_for_the_pages_that_they_write) {
    auto settings = exact(tiny_limits(model, 14));
    settings[1] = "memory.staging_pages=8";  // of 14 pages the first sequence alone would give 4 to staging
    TestEngine test(model, settings, {8, 0});
    std::vector<uint64_t> ids;
    for (int32_t i = 1; i <= 3; ++i) ids.push_back(test.engine->submit(request(i, 40 + i, 12)));
    while (test.engine->step()) {
    }
    for (int32_t i = 1; i <= 3; ++i) {
        EXPECT_EQ(test.engine->tokens(ids[static_cast<size_t>(i - 1)]), alone(settings, request(i, 40 + i, 12)));
    }
}

TEST(Batching, a_request_that_can_never_fit_leaves_the_engine_usable) {
    TestEngine test(model, exact(tiny_limits(model, 8, {"tiers.host.kv_bytes=64KiB"})), {8, 0});
    EXPECT_THROW(test.engine->submit(request(1, 200, 50)), Error);
    const uint64_t id = test.engine->submit(request(2, 10, 5));
    while (test.engine->step()) {
    }
    EXPECT_EQ(test.engine->tokens(id).size(), 15u);
}

TEST(Batching, a_cancelled_sequence_leaves_the_others_alone) {
    TestEngine test(model, exact(), {8, 0});
    const uint64_t first = test.engine->submit(request(1, 20, 30));
    const uint64_t second = test.engine->submit(request(2, 20, 30));
    test.engine->step();
    test.engine->cancel(first);
    while (test.engine->step()) {
    }
    EXPECT_EQ(test.engine->finish_reason(first), FinishReason::cancelled);
    EXPECT_EQ(test.engine->tokens(second), alone(exact(), request(2, 20, 30)));
}

TEST(Batching, a_held_sequence_waits_and_goes_on_where_it_was) {
    TestEngine test(model, exact(), {8, 0});
    Engine& engine = *test.engine;
    const uint64_t held = engine.submit(request(1, 20, 30)), other = engine.submit(request(2, 20, 30));
    for (int i = 0; i < 5; ++i) engine.step();
    const std::vector<int32_t> so_far = engine.tokens(held);
    engine.hold(held, true);
    while (engine.step()) {
    }
    EXPECT_EQ(engine.tokens(held), so_far);
    EXPECT_EQ(engine.finish_reason(held), FinishReason::running);
    EXPECT_EQ(engine.finish_reason(other), FinishReason::length);
    engine.hold(held, false);
    while (engine.step()) {
    }
    EXPECT_EQ(engine.tokens(held), alone(exact(), request(1, 20, 30)));
    EXPECT_EQ(engine.tokens(other), alone(exact(), request(2, 20, 30)));
}

TEST(Batching, the_same_seed_gives_the_same_tokens) {
    auto sampled = [](uint64_t seed) {
        GenerationRequest one = request(3, 10, 30);
        one.sampler.temperature = 1.0;
        one.sampler.seed = seed;
        return alone(exact(), std::move(one));
    };
    EXPECT_EQ(sampled(7), sampled(7));
    EXPECT_NE(sampled(7), sampled(8));
}

TEST(Batching, wrong_requests_are_refused) {
    TestEngine test(model, exact());
    EXPECT_THROW(test.engine->submit(GenerationRequest{}), Error);
    GenerationRequest outside = request(1, 4, 4);
    outside.prompt[2] = 1 << 20;
    EXPECT_THROW(test.engine->submit(outside), Error);
    EXPECT_THROW(test.engine->submit(request(1, 1 << 20, 4)), Error);
}

}  // namespace
}  // namespace kvplane::test
