// Which rows snapkv, pyramidkv and h2o keep, with the real ops of the cpu device, against lists of a NumPy program.
#include <gtest/gtest.h>

#include "golden_text.h"

namespace kvplane::test {
namespace {

FakeHost::Options options_of(const nlohmann::json& given) {
    FakeHost::Options options;
    for (const auto& [key, value] : given.items())
        options[key] = value.is_string() ? value.get<std::string>() : value.dump();
    return options;
}

// The tokens that the cache of a layer holds.
std::vector<std::vector<int>> tokens_kept(FakeKvCore& core, uint32_t layer) {
    return core.sequences[0].layers[layer].tokens;
}

void read_prompt(FakeKvCore& core, const GoldenText& text, int64_t chunk) {
    for (int64_t begin = 0; begin < text.prompt(); begin += chunk) {
        const int64_t end = std::min(text.prompt(), begin + chunk);
        std::vector<FakeRows> rows;
        for (uint32_t layer = 0; layer < text.model.n_layers; layer++)
            rows.push_back(text.rows(core, begin, end, layer));
        core.step({{0, KVP_PHASE_PREFILL, end - begin, end == text.prompt()}}, rows);
    }
}

class GoldenPrompt : public testing::TestWithParam<const char*> {};

TEST_P(GoldenPrompt, keeps_the_rows_that_the_reference_keeps_whatever_the_chunks) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    const GoldenText text(GetParam());
    const std::string name = std::string(GetParam());
    for (const int64_t chunk : {int64_t{5}, int64_t{16}, int64_t{61}, text.prompt()}) {
        FakeKvCore core(plugin_path(name.substr(0, name.find('-'))), text.model, options_of(text.golden["options"]),
                        &cpu());
        ASSERT_EQ(core.created, KVP_OK) << core.error();
        core.open();
        read_prompt(core, text, chunk);
        for (const auto& step : text.golden["steps"]) {
            const auto expected = step["rows"].get<std::vector<std::vector<int>>>();
            ASSERT_EQ(tokens_kept(core, step["layer"]), expected)
                << "layer " << step["layer"] << ", chunks of " << chunk;
        }
        // What follows the prompt is added, and everything is read.
        core.decode(0, core.plain_rows(1));
        for (uint32_t layer = 0; layer < text.model.n_layers; layer++) {
            EXPECT_EQ(rows_read(core.segments[layer][0], 0, core.n_rows(0, layer)).size(), core.n_rows(0, layer));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenPrompt,
                         testing::Values("snapkv-gqa2-d16", "snapkv-mha-max-d16", "snapkv-gqa3-small-d16",
                                         "snapkv-over-by-one-d16", "snapkv-exact-d16", "snapkv-short-d16",
                                         "pyramidkv-gqa2-d16", "pyramidkv-flat-d16", "pyramidkv-capped-d16"),
                         [](const auto& info) { return test_name(info.param); });

class GoldenH2o : public testing::TestWithParam<const char*> {};

TEST_P(GoldenH2o, keeps_the_rows_that_the_reference_keeps_at_every_token) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    const GoldenText text(GetParam());
    for (const int64_t chunk : {int64_t{7}, int64_t{64}, text.prompt()}) {
        FakeKvCore core(plugin_path("h2o"), text.model, options_of(text.golden["options"]), &cpu());
        ASSERT_EQ(core.created, KVP_OK) << core.error();
        core.open();
        read_prompt(core, text, chunk);
        for (const auto& step : text.golden["steps"]) {
            const int64_t position = step["position"];
            ASSERT_EQ(tokens_kept(core, 0), step["rows"].get<std::vector<std::vector<int>>>())
                << "position " << position << ", chunks of " << chunk;
            core.decode(0, text.rows(core, position, position + 1));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenH2o,
                         testing::Values("h2o-gqa2-d16", "h2o-by-sixteen-d16", "h2o-normalised-gqa3-d16",
                                         "h2o-flexgen-d16", "h2o-budget-border-d16"),
                         [](const auto& info) { return test_name(info.param); });

TEST(H2o, refuses_a_rewind_since_its_sums_hold_what_would_be_gone) {
    FakeKvCore core(plugin_path("h2o"), small_model(), {}, &cpu());
    core.open();
    core.prefill(0, 10, core.plain_rows(10));
    EXPECT_EQ(core.table->seq_rewind(core.instance, core.sequences[0].abi.state, 5), KVP_UNSUPPORTED);
}

TEST(SnapKv, refuses_a_smoothing_of_even_width_and_too_short_an_interval) {
    EXPECT_EQ(FakeKvCore(plugin_path("snapkv"), small_model(), {{"kernel", "4"}}).created, KVP_ERROR_INVALID);
    EXPECT_EQ(FakeKvCore(plugin_path("snapkv"), small_model(), {{"again", "8"}}).created, KVP_ERROR_INVALID);
}

// What was decoded in between has no query at hand, and those before it are no votes of the second prompt.
TEST(SnapKv, hears_the_queries_of_a_second_prompt_alone) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    const GoldenText text("snapkv-gqa2-d16");
    const auto kept_with = [&](float query_scale) {
        FakeKvCore core(plugin_path("snapkv"), text.model, {{"tokens", "44"}, {"window", "8"}}, &cpu());
        core.open();
        FakeRows first = text.rows(core, 0, 40);
        for (float& value : first.query) value *= query_scale;
        core.prefill(0, 40, first);
        for (int64_t position = 40; position < 46; position++) core.decode(0, text.rows(core, position, position + 1));
        EXPECT_EQ(core.n_rows(0, 0), 46);
        core.prefill(0, 3, text.rows(core, 46, 49));
        EXPECT_EQ(core.n_rows(0, 0), 44);
        return tokens_kept(core, 0);
    };
    EXPECT_EQ(kept_with(1), kept_with(-1));
}

TEST(SnapKv, acts_again_when_told_so) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    const GoldenText text("snapkv-gqa2-d16");
    FakeKvCore core(plugin_path("snapkv"), text.model, {{"tokens", "20"}, {"window", "8"}, {"again", "10"}}, &cpu());
    core.open();
    core.prefill(0, 60, text.rows(core, 0, 60));
    int64_t most = 0;
    for (int64_t position = 60; position < 150; position++) {
        core.decode(0, text.rows(core, position, position + 1));
        most = std::max(most, core.n_rows(0, 0));
        EXPECT_EQ(tokens_kept(core, 0)[0].back(), position);
    }
    EXPECT_EQ(most, 29);
}

}  // namespace
}  // namespace kvplane::test
