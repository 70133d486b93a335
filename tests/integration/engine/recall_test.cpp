// The recall meter against true attention weights, with rows that leave the cache too; and the guard.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string model = std::string(KVPLANE_GOLDEN_DIR) + "/tiny/tiny-gqa-f32.gguf";

using Settings = std::vector<std::string>;

const Settings infinigen = {"kv.plugin=infinigen",       "kv.infinigen.recent=4",      "kv.infinigen.sinks=1",
                            "kv.infinigen.min_tokens=4", "kv.infinigen.centroids=off", "kv.infinigen.dense_layers=0"};
// Pages of 4 tokens and room for 16: rows leave soon.
const Settings pool = {"kv.plugin=infinigen",         "kv.infinigen.recent=4",      "kv.infinigen.sinks=1",
                       "kv.infinigen.min_tokens=4",   "kv.infinigen.centroids=off", "kv.infinigen.dense_layers=0",
                       "kv.infinigen.pool_tokens=16", "memory.page_tokens=4"};

// Strategies whose rows leave one layer for good.
const Settings window = {"kv.plugin=window", "kv.window.tokens=12", "kv.window.sinks=2", "memory.page_tokens=4"};
const Settings h2o = {"kv.plugin=h2o", "kv.h2o.tokens=12", "kv.h2o.interval=1", "memory.page_tokens=4"};
const Settings snapkv = {"kv.plugin=snapkv", "kv.snapkv.tokens=6", "kv.snapkv.window=2", "memory.page_tokens=4"};

// tests/reference/attention_weights.py: of the last token of `ids`.
struct TrueWeights {
    TrueWeights() {
        const std::string name = std::string(KVPLANE_GOLDEN_DIR) + "/recall/tiny-gqa-f32";
        const auto json = read_json(name + ".json");
        ids = json.at("ids").get<std::vector<int32_t>>();
        layers = json.at("layers");
        heads = json.at("heads");
        values.resize(layers * heads * ids.size());
        std::ifstream in(name + ".f32", std::ios::binary);
        in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
        EXPECT_TRUE(in);
    }
    float at(size_t layer, size_t head, size_t token) const {
        return values[(layer * heads + head) * ids.size() + token];
    }

    std::vector<int32_t> ids;
    size_t layers = 0, heads = 0;
    std::vector<float> values;
};

// Looks at every layer at every step of a text whose first eight tokens are a prompt.
std::vector<RecallSample> samples_of(const Settings& settings, const std::vector<int32_t>& ids,
                                     RecallSums* sums = nullptr) {
    TestEngine test(model, exact(settings));
    std::vector<RecallSample> samples;
    test.engine->recall_meter().set_every(1, 99);
    test.engine->recall_meter().on_sample = [&](const RecallSample& sample) { samples.push_back(sample); };
    test.engine->evaluate(ids, 8, 0, {});
    if (sums != nullptr) *sums = test.engine->recall_meter().sums();
    return samples;
}

}  // namespace

TEST(RecallMeter, weights_are_those_of_pytorch) {
    const TrueWeights expected;
    size_t looked_at = 0;
    for (const RecallSample& sample : samples_of({}, expected.ids)) {
        if (sample.position + 1 != static_cast<int64_t>(expected.ids.size())) continue;
        ++looked_at;
        for (size_t head = 0; head < expected.heads; ++head) {
            for (size_t token = 0; token < expected.ids.size(); ++token) {
                EXPECT_NEAR(sample.weights[head * expected.ids.size() + token], expected.at(sample.layer, head, token),
                            2e-5);
            }
        }
    }
    EXPECT_EQ(looked_at, expected.layers);
}

TEST(RecallMeter, dense_attention_misses_nothing) {
    RecallSums sums;
    const TrueWeights text;
    samples_of({}, text.ids, &sums);
    EXPECT_EQ(sums.samples, static_cast<double>((text.ids.size() - 8) * text.layers * text.heads));
    EXPECT_NEAR(sums.mass / sums.samples, 1, 1e-5);
    EXPECT_DOUBLE_EQ(sums.recall / sums.samples, 1);
    EXPECT_NEAR(sums.error / sums.samples, 0, 1e-5);
}

// What int8 rows round shows in the output, and int8 rows lose no mass.
TEST(RecallMeter, sees_what_a_row_format_rounds) {
    TestEngine test(model, {"device.exact_f32=true", "kv.codec=i8"});
    test.engine->recall_meter().set_every(1, 99);
    test.engine->evaluate(TrueWeights().ids, 8, 0, {});
    const RecallSums& sums = test.engine->recall_meter().sums();
    EXPECT_NEAR(sums.mass / sums.samples, 1, 1e-5);
    EXPECT_GT(sums.error / sums.samples, 1e-4);
    EXPECT_LT(sums.error / sums.samples, 0.05);
}

// In the first layer queries and keys do not depend on what earlier layers read: true weights hold for every strategy.
TEST(RecallMeter, knows_the_tokens_that_a_strategy_saw_even_when_rows_left) {
    const TrueWeights expected;
    const size_t n = expected.ids.size(), group = expected.heads / 2;
    for (const Settings& settings : {infinigen, pool, window, h2o, snapkv}) {
        SCOPED_TRACE(settings.front() + " " + settings[1]);
        size_t looked_at = 0;
        for (const RecallSample& sample : samples_of(settings, expected.ids)) {
            for (const std::vector<int32_t>& visible : sample.visible) {
                EXPECT_TRUE(std::is_sorted(visible.begin(), visible.end()));
                EXPECT_EQ(std::adjacent_find(visible.begin(), visible.end()), visible.end()) << "a token twice";
                ASSERT_FALSE(visible.empty());
                EXPECT_EQ(visible.back(), sample.position) << "the newest token is seen";
            }
            if (sample.layer != 0 || sample.position + 1 != static_cast<int64_t>(n)) continue;
            ++looked_at;
            double mass = 0, own_mass = 0;
            for (size_t head = 0; head < expected.heads; ++head) {
                const auto& visible = sample.visible[head / group];
                EXPECT_LT(visible.size(), n);
                for (int32_t token : visible) {
                    mass += expected.at(0, head, static_cast<size_t>(token));
                    own_mass += sample.weights[head * n + static_cast<size_t>(token)];
                }
            }
            EXPECT_NEAR(own_mass, mass, 1e-4);
            EXPECT_LT(mass, static_cast<double>(expected.heads) - 1e-3);
        }
        EXPECT_EQ(looked_at, 1u);
    }
}

// The visible rows alone, with their true weights made to sum to one, give the output; its difference from the dense one is
// the error. By hand from the samples of two runs in the first layer.
TEST(RecallMeter, sums_are_those_of_the_samples) {
    RecallSums sums;
    const std::vector<RecallSample> samples = samples_of(infinigen, TrueWeights().ids, &sums);
    double mass = 0, recall = 0, n_looks = 0;
    for (const RecallSample& sample : samples) {
        const auto n = static_cast<size_t>(sample.position + 1);
        const size_t heads = sample.weights.size() / n, group = heads / sample.visible.size();
        for (size_t head = 0; head < heads; ++head) {
            const float* weights = &sample.weights[head * n];
            const auto& visible = sample.visible[head / group];
            std::vector<int32_t> order(n);
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return weights[a] > weights[b]; });
            double hits = 0;
            for (size_t i = 0; i < visible.size(); ++i)
                hits += std::count(visible.begin(), visible.end(), order[i]) > 0;
            recall += hits / static_cast<double>(visible.size());
            for (int32_t token : visible) mass += weights[token];
            ++n_looks;
        }
    }
    EXPECT_EQ(sums.samples, n_looks);
    EXPECT_NEAR(sums.mass, mass, 1e-3);
    EXPECT_NEAR(sums.recall, recall, 1e-6);
    EXPECT_GT(sums.error / sums.samples, 1e-3);
}

TEST(RecallMeter, follows_a_fork_and_a_rewind) {
    const std::vector<int32_t> ids = TrueWeights().ids;
    TestEngine test(model, exact(), {2, 0});
    Engine& engine = *test.engine;
    engine.recall_meter().set_every(1, 99);
    const auto steps = [&] {
        while (engine.step()) {
        }
    };
    const uint64_t text = engine.open_text(64);
    engine.feed(text, std::span(ids).first(8), Feed::prompt_end);
    steps();
    const uint64_t other = engine.fork(text, 64);
    ASSERT_NE(other, 0u);
    engine.feed(text, std::span(ids).subspan(8, 6), Feed::decode);
    engine.feed(other, std::span(ids).subspan(20, 6), Feed::decode);
    steps();
    engine.rewind(text, 10);
    engine.feed(text, std::span(ids).subspan(30, 4), Feed::decode);
    steps();
    const RecallSums& sums = engine.recall_meter().sums();
    EXPECT_EQ(sums.samples, (6 + 6 + 4) * 3 * 4);
    EXPECT_NEAR(sums.error / sums.samples, 0, 1e-5);
    engine.forget(text);
    engine.forget(other);
}

TEST(Guard, turns_layers_dense_whose_error_passes_the_bound) {
    const std::vector<int32_t> ids = TrueWeights().ids;
    Settings settings = infinigen;
    settings.insert(settings.end(), {"kv.guard.error=1e-6", "kv.guard.every=1"});
    TestEngine guarded(model, exact(settings)), free(model, exact(infinigen));
    guarded.engine->evaluate(ids, 8, 0, {});
    free.engine->evaluate(ids, 8, 0, {});
    const RecallMeter& meter = guarded.engine->recall_meter();
    EXPECT_EQ(meter.guard_checks(), (ids.size() - 8) * 3);
    EXPECT_EQ(meter.guard_turned_dense(), 3u) << "every layer, once";
    // From the step after the first one that left a row out everything is read.
    EXPECT_LT(free.engine->statistics().share_read(), 0.8);
    EXPECT_GT(guarded.engine->statistics().share_read(), 0.95);
    EXPECT_LT(guarded.engine->statistics().share_read(), 1.0);
}

TEST(Guard, leaves_alone_what_stays_within_the_bound) {
    const std::vector<int32_t> ids = TrueWeights().ids;
    Settings settings = infinigen;
    settings.insert(settings.end(), {"kv.guard.error=1000", "kv.guard.every=1"});
    TestEngine guarded(model, exact(settings)), free(model, exact(infinigen));
    EXPECT_EQ(largest_difference(guarded.logits(ids, 8, 8), free.logits(ids, 8, 8)), 0);
    EXPECT_EQ(guarded.engine->recall_meter().guard_turned_dense(), 0u);
    EXPECT_GT(guarded.engine->recall_meter().guard_checks(), 0u);
}

}  // namespace kvplane::test
