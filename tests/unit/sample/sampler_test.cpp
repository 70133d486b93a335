// Expected values come from tests/unit/sample/reference.py: NumPy in doubles and a generator of its own, written from
// the definition of MT19937-64. Its draws keep at least 0.7 % of the total away from every border between two tokens.
#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "base/error.h"

using namespace kvplane;

namespace {

// Probabilities at temperature 1: 0.0612 0.4525 0.1665 0.0371 0.0083 0.2744
const std::vector<float> example = {1.0f, 3.0f, 2.0f, 0.5f, -1.0f, 2.5f};

std::vector<int32_t> draws(const SamplerOptions& options, size_t count, const std::vector<float>& logits = example) {
    Sampler sampler(options);
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < count; ++i) {
        std::vector<float> copy = logits;
        tokens.push_back(sampler.sample(copy, {}));
    }
    return tokens;
}

std::set<int32_t> reachable(const SamplerOptions& options, const std::vector<float>& logits = example) {
    const auto tokens = draws(options, 2000, logits);
    return {tokens.begin(), tokens.end()};
}

SamplerOptions at_temperature(double temperature, uint64_t seed = 1) {
    SamplerOptions options;
    options.temperature = temperature;
    options.seed = seed;
    return options;
}

std::vector<float> penalised(const SamplerOptions& options, std::vector<float> logits,
                             const std::vector<int32_t>& recent) {
    Sampler(options).sample(logits, recent);
    return logits;
}

void expect_refusal(std::vector<float> logits, const std::vector<int32_t>& recent, const std::string& words,
                    SamplerOptions options = {}) {
    try {
        Sampler(options).sample(logits, recent);
        ADD_FAILURE() << "nothing was refused: " << words;
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::runtime);
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
}

constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST(Sampler, is_greedy_at_temperature_zero) {
    EXPECT_EQ(draws({}, 3), (std::vector<int32_t>{1, 1, 1}));
}

TEST(Sampler, takes_the_lowest_id_of_equal_logits_when_greedy) {
    EXPECT_EQ(draws({}, 1, {1.0f, 7.0f, 7.0f, 7.0f}), (std::vector<int32_t>{1}));
    EXPECT_EQ(draws({}, 1, {-2.0f, -2.0f}), (std::vector<int32_t>{0}));
}

TEST(Sampler, draws_what_the_reference_draws) {
    EXPECT_EQ(draws(at_temperature(1.0, 1), 24),
              (std::vector<int32_t>{1, 1, 1, 0, 1, 5, 1, 1, 2, 2, 1, 2, 5, 1, 1, 1, 1, 5, 1, 1, 1, 5, 1, 1}));
    EXPECT_EQ(draws(at_temperature(0.7, 42), 24),
              (std::vector<int32_t>{5, 2, 5, 1, 5, 1, 1, 1, 1, 1, 0, 1, 2, 2, 5, 5, 5, 1, 1, 1, 5, 1, 1, 1}));
    SamplerOptions three = at_temperature(1.0, 1);
    three.top_k = 3;
    EXPECT_EQ(draws(three, 24),
              (std::vector<int32_t>{1, 1, 1, 1, 1, 2, 1, 1, 5, 5, 1, 5, 5, 1, 1, 1, 1, 5, 1, 1, 1, 5, 1, 1}));
}

TEST(Sampler, draws_in_proportion_to_the_probabilities) {
    std::vector<double> count(example.size());
    constexpr double all = 20000;
    for (const int32_t token : draws(at_temperature(1.0), static_cast<size_t>(all)))
        count[static_cast<size_t>(token)] += 1;
    const std::vector<double> expected = {0.06123364, 0.45245879, 0.16645029, 0.03714008, 0.00828707, 0.27443013};
    for (size_t id = 0; id < expected.size(); ++id) {
        const double deviation = std::sqrt(expected[id] * (1 - expected[id]) / all);
        EXPECT_NEAR(count[id] / all, expected[id], 4 * deviation) << id;
    }
}

TEST(Sampler, repeats_itself_with_the_same_seed_alone) {
    EXPECT_EQ(draws(at_temperature(2.0, 7), 50), draws(at_temperature(2.0, 7), 50));
    EXPECT_NE(draws(at_temperature(2.0, 7), 50), draws(at_temperature(2.0, 8), 50));
}

TEST(Sampler, keeps_the_k_likeliest) {
    SamplerOptions options = at_temperature(5.0);
    options.top_k = 2;
    EXPECT_EQ(reachable(options), (std::set<int32_t>{1, 5}));
    options.top_k = 1;
    EXPECT_EQ(reachable(options), (std::set<int32_t>{1}));
    options.top_k = 100;
    EXPECT_EQ(reachable(options).size(), example.size());
}

TEST(Sampler, prefers_lower_ids_among_equals_at_the_border_of_top_k) {
    SamplerOptions options = at_temperature(1.0);
    options.top_k = 2;
    EXPECT_EQ(reachable(options, {1.0f, 1.0f, 1.0f, 1.0f}), (std::set<int32_t>{0, 1}));
}

TEST(Sampler, keeps_the_shortest_run_that_reaches_top_p) {
    // Sums of the sorted probabilities: 0.4525 0.7269 0.8933 0.9546 0.9917 1
    const auto kept = [](double top_p) {
        SamplerOptions options = at_temperature(1.0);
        options.top_p = top_p;
        return reachable(options);
    };
    EXPECT_EQ(kept(0.0), (std::set<int32_t>{1}));
    EXPECT_EQ(kept(0.45), (std::set<int32_t>{1}));
    EXPECT_EQ(kept(0.46), (std::set<int32_t>{1, 5}));
    EXPECT_EQ(kept(0.73), (std::set<int32_t>{1, 2, 5}));
    EXPECT_EQ(kept(0.992), (std::set<int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(Sampler, takes_top_p_of_what_top_k_left) {
    // Of the three likeliest the best holds 0.4525 / 0.8933 = 0.5065, with the next 0.8137.
    SamplerOptions options = at_temperature(1.0);
    options.top_k = 3;
    options.top_p = 0.5;
    EXPECT_EQ(reachable(options), (std::set<int32_t>{1}));
    options.top_p = 0.81;
    EXPECT_EQ(reachable(options), (std::set<int32_t>{1, 5}));
    options.top_p = 0.82;
    EXPECT_EQ(reachable(options), (std::set<int32_t>{1, 2, 5}));
}

TEST(Sampler, leaves_out_what_is_below_min_p) {
    // Shares of the best one's probability: 1, e^-0.5 = 0.6065, e^-1 = 0.3679, e^-2 = 0.1353, e^-2.5, e^-4
    const auto kept = [](double min_p, double temperature) {
        SamplerOptions options = at_temperature(temperature);
        options.min_p = min_p;
        return reachable(options);
    };
    EXPECT_EQ(kept(1.0, 1.0), (std::set<int32_t>{1}));
    EXPECT_EQ(kept(0.61, 1.0), (std::set<int32_t>{1}));
    EXPECT_EQ(kept(0.60, 1.0), (std::set<int32_t>{1, 5}));
    EXPECT_EQ(kept(0.36, 1.0), (std::set<int32_t>{1, 2, 5}));
    EXPECT_EQ(kept(0.60, 2.0), (std::set<int32_t>{1, 2, 5}));  // the share is taken after the temperature: e^-0.5
}

TEST(Sampler, finds_top_p_in_a_large_flat_vocabulary) {
    // 4,000 equal tokens: p = 0.5 keeps 2,000, more than are sorted at once, and of the lowest ids.
    SamplerOptions options = at_temperature(1.0);
    options.top_p = 0.5;
    const auto kept = draws(options, 2000, std::vector<float>(4000, 1.5f));
    const auto [least, most] = std::minmax_element(kept.begin(), kept.end());
    EXPECT_LT(*least, 20);
    EXPECT_LE(*most, 1999);
    EXPECT_GT(*most, 1979);
}

TEST(Sampler, penalises_repetition_once_a_token) {
    SamplerOptions options;
    options.repeat_penalty = 2.0;
    EXPECT_EQ(penalised(options, {4.0f, -3.0f, 0.0f, 1.0f}, {0, 1, 0, 2}),
              (std::vector<float>{2.0f, -6.0f, 0.0f, 1.0f}));
}

TEST(Sampler, penalises_presence_once_and_frequency_each_time) {
    SamplerOptions options;
    options.presence_penalty = 0.5;
    options.frequency_penalty = 0.25;
    EXPECT_EQ(penalised(options, {4.0f, 3.0f, 2.0f}, {0, 0, 0, 1}), (std::vector<float>{2.75f, 2.25f, 2.0f}));
}

TEST(Sampler, applies_repetition_before_presence) {
    SamplerOptions options;
    options.repeat_penalty = 2.0;
    options.presence_penalty = 1.0;
    EXPECT_EQ(penalised(options, {4.0f, 9.0f}, {0}), (std::vector<float>{1.0f, 9.0f}));
}

TEST(Sampler, looks_at_the_last_tokens_of_the_window_alone) {
    SamplerOptions options;
    options.presence_penalty = 1.0;
    options.repeat_window = 2;
    EXPECT_EQ(penalised(options, {1.0f, 1.0f, 1.0f}, {0, 1, 2}), (std::vector<float>{1.0f, 0.0f, 0.0f}));
    options.repeat_window = 0;
    EXPECT_EQ(penalised(options, {1.0f, 1.0f, 1.0f}, {0, 1, 2}), (std::vector<float>{1.0f, 1.0f, 1.0f}));
}

TEST(Sampler, lets_penalties_change_the_greedy_choice) {
    SamplerOptions options;
    options.repeat_penalty = 1.5;
    Sampler sampler(options);
    std::vector<float> logits = example;
    EXPECT_EQ(sampler.sample(logits, std::vector<int32_t>{1}), 5);  // 3 / 1.5 = 2 < 2.5
}

TEST(Sampler, never_takes_a_banned_token) {
    EXPECT_EQ(reachable(at_temperature(5.0), {-infinity, 0.0f, -infinity, 0.0f}), (std::set<int32_t>{1, 3}));
}

TEST(Sampler, becomes_greedy_as_the_temperature_vanishes) {
    EXPECT_EQ(reachable(at_temperature(1e-300)), (std::set<int32_t>{1}));
}

TEST(Sampler, refuses_logits_that_cannot_be_compared) {
    expect_refusal({1.0f, std::nanf(""), 2.0f}, {}, "token 1 is not a number");
    expect_refusal({1.0f, std::nanf(""), 2.0f}, {}, "token 1 is not a number", at_temperature(1.0));
    expect_refusal({1.0f, infinity}, {}, "token 1 is infinite");
    expect_refusal({-infinity, -infinity}, {}, "every token is banned");
    expect_refusal({}, {}, "there are 0 logits");
}

TEST(Sampler, refuses_recent_tokens_outside_the_vocabulary) {
    SamplerOptions options;
    options.repeat_penalty = 1.1;
    expect_refusal({1.0f, 2.0f}, {2}, "recent token 2", options);
    expect_refusal({1.0f, 2.0f}, {-1}, "recent token -1", options);
}
