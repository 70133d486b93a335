// Which tokens the window shows and keeps, and that turning the sinks alone gives StreamingLLM's attention.
#include <gtest/gtest.h>

#include <random>

#include "rows_read.h"

namespace kvplane::test {
namespace {

// Tokens that the plan of the last step reads of layer 0, own row left out.
std::vector<int> tokens_read(FakeKvCore& core, int64_t n_past) {
    std::vector<int> tokens;
    for (int row : rows_read(core.segments[0][0], 0, n_past)) {
        tokens.push_back(core.sequences[0].layers[0].tokens[0][static_cast<size_t>(row)]);
    }
    return tokens;
}

std::vector<int> sinks_and_recent(int sinks, int begin, int end) {
    std::vector<int> tokens;
    for (int token = 0; token < sinks; token++) tokens.push_back(token);
    for (int token = begin; token < end; token++) tokens.push_back(token);
    return tokens;
}

TEST(Window, shows_the_sinks_and_the_newest_tokens_exactly_and_keeps_few_pages) {
    for (const int prompt : {1, 63, 64, 65, 99, 100, 101, 300}) {
        FakeKvCore core(plugin_path("window"), small_model(), {{"tokens", "100"}, {"sinks", "4"}});
        core.open();
        core.prefill(0, prompt, core.plain_rows(prompt));
        EXPECT_EQ(tokens_read(core, prompt), sinks_and_recent(0, 0, prompt)) << "the prompt is read in full";
        for (int position = prompt; position < prompt + 200; position++) {
            core.decode(0, core.plain_rows(1));
            const auto expected =
                position <= 100 ? sinks_and_recent(0, 0, position) : sinks_and_recent(4, position - 96, position);
            ASSERT_EQ(tokens_read(core, core.n_rows(0, 0) - 1), expected) << position;
            ASSERT_LE(core.n_rows(0, 0), 64 + 96 + 64) << position;
        }
    }
}

TEST(Window, grows_with_the_text_when_it_is_a_share) {
    FakeKvCore core(plugin_path("window"), small_model(), {{"share", "0.2"}, {"sinks", "4"}});
    core.open();
    core.prefill(0, 300, core.plain_rows(300));
    for (int position = 300; position < 400; position++) {
        core.decode(0, core.plain_rows(1));
        ASSERT_EQ(tokens_read(core, core.n_rows(0, 0) - 1),
                  sinks_and_recent(4, position - (position / 5 - 4), position));
    }
}

TEST(Window, forgets_a_prompt_chunk_by_chunk_when_told_so) {
    FakeKvCore core(plugin_path("window"), small_model(), {{"tokens", "68"}, {"prompt", "window"}});
    core.open();
    for (int begin = 0; begin < 640; begin += 64) {
        core.prefill(0, 64, core.plain_rows(64), begin == 576);
        EXPECT_EQ(tokens_read(core, core.n_rows(0, 0) - 64),
                  begin <= 64 ? sinks_and_recent(0, 0, begin) : sinks_and_recent(4, begin - 64, begin));
        EXPECT_LE(core.n_rows(0, 0), 64 + 64 + 64);
    }
}

std::vector<double> turned(const float* x, size_t d, double position, const std::vector<float>& frequencies) {
    std::vector<double> out(x, x + d);
    for (size_t i = 0; i < d / 2; i++) {
        const double angle = position * double(frequencies[i]);
        out[i] = x[i] * std::cos(angle) - x[i + d / 2] * std::sin(angle);
        out[i + d / 2] = x[i] * std::sin(angle) + x[i + d / 2] * std::cos(angle);
    }
    return out;
}

// As the paper does it: keys and query are turned to their places in the cache.
TEST(Window, with_cache_positions_attends_as_streaming_llm) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    auto model = small_model();
    model.n_layers = 1;
    const size_t d = model.head_size, group = model.n_heads / model.n_kv_heads;
    std::vector<float> frequencies;
    for (size_t i = 0; i < d / 2; i++) frequencies.push_back(std::pow(50.0f, -2.0f * float(i) / float(d)));
    const auto tensor = kvp::Tensor::f32(address_of(frequencies.data()), {int64_t(d / 2)});
    model.rope_style = KVP_ROPE_HALVES;
    model.rope_dimensions = model.head_size;
    model.rope_magnitude = 1;
    model.rope_frequencies = tensor;

    constexpr int kSinks = 4, kTokens = 900, kBudget = 50;
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    std::vector<float> q(kTokens * model.n_heads * d), k(kTokens * model.n_kv_heads * d), v(k.size());
    for (auto* values : {&q, &k, &v}) {
        for (float& value : *values) value = 2 * normal(random);
    }
    FakeKvCore core(plugin_path("window"), model, {{"tokens", std::to_string(kBudget)}, {"positions", "cache"}},
                    &cpu());
    ASSERT_EQ(core.created, KVP_OK) << core.error();
    core.open();
    for (int token = 0; token < kTokens; token++) {
        FakeRows rows = core.plain_rows(1);
        for (size_t head = 0; head < model.n_heads; head++) {
            const auto x = turned(&q[(size_t(token) * model.n_heads + head) * d], d, token, frequencies);
            std::copy(x.begin(), x.end(), rows.query.begin() + std::ptrdiff_t(head * d));
        }
        for (size_t head = 0; head < model.n_kv_heads; head++) {
            const size_t at = (size_t(token) * model.n_kv_heads + head) * d;
            const auto x = turned(&k[at], d, token, frequencies);
            std::copy(x.begin(), x.end(), rows.key.begin() + std::ptrdiff_t(head * d));
            std::copy_n(v.begin() + std::ptrdiff_t(at), d, rows.value.begin() + std::ptrdiff_t(head * d));
        }
        if (token == 0) {
            core.prefill(0, 1, rows);
        } else {
            core.decode(0, rows);
        }
        if (token % 97 != 0) continue;
        std::vector<int> cache =
            sinks_and_recent(std::min(kSinks, token), std::max(kSinks, token - (kBudget - kSinks)), token + 1);
        if (token < kSinks) cache = sinks_and_recent(0, 0, token + 1);
        for (size_t head = 0; head < model.n_heads; head++) {
            const auto query =
                turned(&q[(size_t(token) * model.n_heads + head) * d], d, double(cache.size() - 1), frequencies);
            std::vector<double> out(d);
            double sum = 0;
            for (size_t place = 0; place < cache.size(); place++) {
                const size_t at = (size_t(cache[place]) * model.n_kv_heads + head / group) * d;
                const auto key = turned(&k[at], d, double(place), frequencies);
                double score = 0;
                for (size_t i = 0; i < d; i++) score += query[i] * key[i];
                const double weight = std::exp(score / std::sqrt(double(d)));
                sum += weight;
                for (size_t i = 0; i < d; i++) out[i] += weight * v[at + i];
            }
            for (size_t i = 0; i < d; i++) {
                ASSERT_NEAR(core.attended[head * d + i], out[i] / sum, 2e-4) << "token " << token << " head " << head;
            }
        }
    }
}

}  // namespace
}  // namespace kvplane::test
