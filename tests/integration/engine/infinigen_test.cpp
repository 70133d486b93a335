// InfiniGen end to end, against PyTorch (tests/reference/infinigen_logits.py) and against dense attention.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/aux_file.h"
#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string golden_dir = KVPLANE_GOLDEN_DIR;

std::string key(const std::string& name, const std::string& value) {
    return "kv.infinigen." + name + "=" + value;
}

// Settings as tests/reference/infinigen_logits.py writes them.
std::vector<std::string> settings(const nlohmann::json& options) {
    std::vector<std::string> made = {"kv.plugin=infinigen", "kv.infinigen.min_share=0", "kv.infinigen.key_type=f32",
                                     "kv.infinigen.skew=off"};
    const std::string source = options.at("source");
    made.push_back(key("source", source == "own" ? "own_query" : source));
    made.push_back(key("columns", options.at("columns")));
    made.push_back(key("centroids", options.at("centroids").get<bool>() ? "on" : "off"));
    for (const char* name : {"ratio", "alpha", "cap", "sinks", "recent", "dense_layers", "min_tokens"}) {
        made.push_back(key(name, options.at(name).dump()));
    }
    if (options.contains("look_ahead")) made.push_back(key("look_ahead", options.at("look_ahead").dump()));
    return made;
}

class GoldenInfinigen : public testing::TestWithParam<const char*> {};

TEST_P(GoldenInfinigen, gives_pytorchs_logits) {
    const GoldenLogits golden(golden_dir + "/infinigen_logits", GetParam());
    const std::string model = golden_dir + "/tiny/" + golden.json.at("model").get<std::string>();
    TestEngine test(model, exact(settings(golden.json.at("options"))));
    const auto found = test.logits(golden.ids, golden.json.at("prompt"), 0);
    for (const auto& [position, row] : golden.rows) {
        EXPECT_LE(largest_difference(found.at(position), row), 2e-4) << "row " << position;
    }
}

TEST_P(GoldenInfinigen, gives_them_too_when_rows_are_fetched_from_the_host_tier) {
    const GoldenLogits golden(golden_dir + "/infinigen_logits", GetParam());
    const std::string model = golden_dir + "/tiny/" + golden.json.at("model").get<std::string>();
    // Centroids are those of pages of 64 tokens.
    const bool centroids = golden.json.at("options").at("centroids");
    const auto limits = tiny_limits(model, centroids ? 8 : 14, settings(golden.json.at("options")), centroids ? 64 : 4);
    TestEngine test(model, exact(limits));
    const auto found = test.logits(golden.ids, golden.json.at("prompt"), 0);
    for (const auto& [position, row] : golden.rows) {
        EXPECT_LE(largest_difference(found.at(position), row), 2e-4) << "row " << position;
    }
    EXPECT_GT(test.engine->statistics().share_moved(), 0);
    EXPECT_LT(test.engine->statistics().share_read(), 0.5);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenInfinigen,
                         testing::Values("gqa-d16-preset", "gqa-d64-own-query", "gqa-d64-paper", "gqa-d64-preset",
                                         "gqa-d64-residual-no-centroids", "mha-d16-union", "gqa-d64-two-ahead",
                                         "gqa-d16-two-ahead-residual", "gqa-d64-two-ahead-paper"),
                         [](const auto& info) {
                             std::string name = info.param;
                             for (char& c : name) c = c == '-' ? '_' : c;
                             return name;
                         });

const std::string model = golden_dir + "/tiny/tiny-gqa-d64-f16.gguf";

std::vector<std::string> whole(std::vector<std::string> more = {}) {
    for (const char* setting : {"ratio=1", "alpha=inf", "cap=1", "dense_layers=0", "recent=4", "min_share=0",
                                "key_type=f32", "centroids=on"}) {
        more.push_back(std::string("kv.infinigen.") + setting);
    }
    more.push_back("kv.plugin=infinigen");
    return more;
}

TEST(Infinigen, with_everything_selected_is_dense_attention) {
    const GoldenLogits golden(golden_dir + "/tiny", "tiny-gqa-d64-f16");
    TestEngine dense(model, exact());
    const auto expected = dense.logits(golden.ids, 70, 0);
    for (const char* source : {"own_query", "attn_input", "residual", "residual_mid"}) {
        TestEngine test(model, exact(whole({key("source", source)})));
        EXPECT_LE(largest_difference(test.logits(golden.ids, 70, 0), expected), 1e-3) << source;
        EXPECT_DOUBLE_EQ(test.engine->statistics().share_read(), 1.0) << source;
    }
}

TEST(Infinigen, skewing_leaves_the_logits_of_full_attention_unchanged) {
    const GoldenLogits golden(golden_dir + "/tiny", "tiny-gqa-d64-f16");
    const auto aux = std::filesystem::path(testing::TempDir()) / ("kvplane-skew-" + std::to_string(getpid()) + ".aux");
    {
        TestEngine calibration(model, exact({"kv.plugin=infinigen"}));
        const auto data = calibration.engine->calibrate(golden.ids);
        write_aux_file(aux, "infinigen", calibration.model->fingerprint(), data);
    }
    TestEngine dense(model, exact());
    TestEngine skewed(model, exact(whole({"kv.aux=" + aux.string(), "kv.infinigen.skew=on"})));
    EXPECT_NE(skewed.engine->strategy_summary().find("skew on"), std::string::npos);
    EXPECT_LE(largest_difference(skewed.logits(golden.ids, 70, 0), dense.logits(golden.ids, 70, 0)), 1e-4);
    std::filesystem::remove(aux);
}

TEST(Infinigen, a_calibration_that_failed_sees_nothing_of_later_texts) {
    const GoldenLogits golden(golden_dir + "/tiny", "tiny-gqa-d64-f16");
    TestEngine fresh(model, exact({"kv.plugin=infinigen"}));
    TestEngine test(model, exact({"kv.plugin=infinigen"}));
    EXPECT_THROW(test.engine->calibrate({}), Error);
    std::vector<int32_t> other(golden.ids.rbegin(), golden.ids.rend());
    test.logits(other, 60, 0);
    EXPECT_EQ(test.engine->calibrate(golden.ids), fresh.engine->calibrate(golden.ids));
}

TEST(Infinigen, a_calibration_of_another_model_is_refused) {
    const GoldenLogits golden(golden_dir + "/tiny", "tiny-gqa-f32");
    const auto aux =
        std::filesystem::path(testing::TempDir()) / ("kvplane-other-model-" + std::to_string(getpid()) + ".aux");
    {
        TestEngine other(golden_dir + "/tiny/tiny-gqa-f32.gguf", exact({"kv.plugin=infinigen"}));
        write_aux_file(aux, "infinigen", other.model->fingerprint(), other.engine->calibrate(golden.ids));
    }
    try {
        TestEngine test(model, exact({"kv.plugin=infinigen", "kv.aux=" + aux.string()}));
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::config);
        EXPECT_NE(std::string(error.what()).find("another model"), std::string::npos) << error.what();
    }
    std::filesystem::remove(aux);
}

TEST(Infinigen, two_long_ranges_both_come_from_the_host_tier) {
    const GoldenLogits golden(golden_dir + "/tiny", "tiny-gqa-d64-f16");
    const std::vector<std::string> wide = {"kv.plugin=infinigen",  key("sinks", "50"),         key("recent", "50"),
                                           key("min_tokens", "8"), key("source", "own_query"), "memory.page_tokens=4"};
    const auto expected = TestEngine(model, exact(wide)).logits(golden.ids, 120, 120);
    TestEngine copying(model, exact(tiny_limits(model, 10, wide)));
    EXPECT_LE(largest_difference(copying.logits(golden.ids, 120, 120), expected), 1e-4);
    EXPECT_GT(copying.engine->statistics().share_moved(), 0.1);
}

TEST(Infinigen, fetches_int8_rows_as_it_reads_them_in_place) {
    const GoldenLogits golden(golden_dir + "/tiny", "tiny-gqa-d64-f16");
    const std::vector<std::string> chosen = {"kv.plugin=infinigen", key("recent", "8"), key("min_tokens", "8"),
                                             key("source", "own_query"), "memory.page_tokens=4"};
    const auto expected = TestEngine(model, with_int8_rows(exact(chosen))).logits(golden.ids, 120, 120);
    TestEngine copying(model, with_int8_rows(exact(tiny_limits(model, 14, chosen, 4, KVP_TYPE_I8))));
    EXPECT_LE(largest_difference(copying.logits(golden.ids, 120, 120), expected), kInt8RowsError);
    EXPECT_GT(copying.engine->statistics().share_moved(), 0);
}

std::vector<std::string> in_units(const std::string& unit, const std::string& forced) {
    return {"kv.plugin=infinigen",     key("unit", unit),         key("source", "own_query"), key("dense_layers", "0"),
            key("centroids", "off"),   key("fixed_tokens", "64"), key("sinks", forced),       key("recent", forced),
            "memory.resident_share=0", "memory.page_tokens=16"};
}

TEST(Infinigen, whole_groups_give_the_same_logits_wherever_they_are) {
    const GoldenLogits golden(golden_dir + "/tiny", "tiny-gqa-d64-f16");
    for (const char* centroids : {"on", "off"}) {
        auto settings = in_units("group", "5");
        settings[4] = key("centroids", centroids);
        TestEngine in_place(model, exact(settings));
        const auto expected = in_place.logits(golden.ids, 120, 120);
        EXPECT_LT(in_place.engine->statistics().share_read(), (64 + 11 + 0.01) / 120);
        TestEngine copying(model, exact(tiny_limits(model, 14, settings, 16)));
        EXPECT_LE(largest_difference(copying.logits(golden.ids, 120, 120), expected), 1e-4) << centroids;
        EXPECT_GT(copying.engine->statistics().share_moved(), 0.1) << centroids;
    }
}

TEST(Infinigen, whole_groups_move_what_is_read_and_no_more) {
    std::vector<int32_t> text(430);
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(3 + i * i * 7 % 241);
    constexpr size_t prompt = 400;
    // Bytes that decode steps fetch over bytes that attention reads.
    const auto fetched_over_read = [&](const char* unit) {
        TestEngine test(model, exact(tiny_limits(model, 14, in_units(unit, "0"), 16)));
        test.logits(text, prompt, prompt);
        const Statistics& found = test.engine->statistics();
        EXPECT_LT(found.share_read(), (64 + 1 + 0.01) / prompt) << unit;
        EXPECT_GT(found.share_read(), (48 + 1) / 430.0) << unit;
        // The new rows leave the device tier, but for a page a layer; so may one that the prompt left there.
        const auto leaving = static_cast<double>((text.size() - prompt + 16) * test.engine->kv_bytes_per_token());
        return (found.bytes_moved - leaving) / found.attended_bytes;
    };
    const double groups = fetched_over_read("group");
    EXPECT_LE(groups, 1);
    EXPECT_GT(groups, 0.75);  // the rest is still there from the step before
    EXPECT_GT(fetched_over_read("row"), 3);
}

TEST(Infinigen, reads_fewer_rows_with_a_smaller_alpha) {
    const GoldenLogits golden(golden_dir + "/tiny", "tiny-gqa-d64-f16");
    double before = 2;
    for (const char* alpha : {"inf", "1", "0.1"}) {
        TestEngine test(model, exact({"kv.plugin=infinigen", key("alpha", alpha), key("min_tokens", "1"),
                                      key("min_share", "0"), key("recent", "4"), key("cap", "1")}));
        test.logits(golden.ids, 70, 149);
        EXPECT_LT(test.engine->statistics().share_read(), before) << alpha;
        before = test.engine->statistics().share_read();
    }
}

}  // namespace
}  // namespace kvplane::test
