// What the options make of it, seen through needs and the summary.
#include <gtest/gtest.h>

#include "small_model.h"

namespace kvplane::test {

namespace {

FakeKvCore infinigen(FakeHost::Options options, bool in_place = false) {
    kvp_kv_model model = small_model();
    model.reads_tiers_in_place = in_place;
    return FakeKvCore(plugin_path("infinigen"), model, std::move(options));
}

std::string summary(FakeHost::Options options, bool in_place = false) {
    const FakeKvCore core = infinigen(std::move(options), in_place);
    return core.created == KVP_OK ? std::string(kvp::view(core.needs->summary)) : core.error();
}

}  // namespace

TEST(InfinigenOptions, default_preset_is_the_measured_best) {
    EXPECT_EQ(
        summary({}),
        "infinigen: source residual_mid, energy columns 12 of 16, i8 partial keys, skew off, alpha 4, floor max(64, 3 "
        "%), cap 20 % or 1024, sinks 4, recent 32, centroids, rows of max(64, 12.5 %) pages");
}

TEST(InfinigenOptions, pages_are_chosen_by_their_centroids_alone) {
    EXPECT_EQ(summary({{"centroids", "off"}}).find("pages"), std::string::npos);
    EXPECT_EQ(summary({{"page_share", "1"}}).find("pages"), std::string::npos);
    EXPECT_NE(summary({{"page_share", "0.5"}, {"min_pages", "3"}}).find("max(3, 50 %) pages"), std::string::npos);
}

TEST(InfinigenOptions, takes_the_own_query_where_tiers_are_read_in_place) {
    EXPECT_NE(summary({}, true).find("source own_query"), std::string::npos);
    EXPECT_NE(summary({{"source", "residual"}}, true).find("source residual,"), std::string::npos);
}

TEST(InfinigenOptions, lean_preset) {
    EXPECT_EQ(summary({{"preset", "lean"}}, true),
              "infinigen: source own_query, energy columns 8 of 16, i4 partial keys, skew off, alpha 3, floor max(64, "
              "1.5 %), "
              "cap 20 % or 1024, sinks 4, recent 32, centroids, rows of max(128, 12.5 %) pages");
}

TEST(InfinigenOptions, paper_preset) {
    EXPECT_EQ(
        summary({{"preset", "paper"}}, true),
        "infinigen: source attn_input, abs_sum columns 4 of 16, f32 partial keys, skew off, alpha 4, floor max(1, 0 "
        "%), cap 20 %, sinks 0, recent 0");
}

TEST(InfinigenOptions, artifact_preset) {
    EXPECT_EQ(
        summary({{"preset", "artifact"}}),
        "infinigen: source attn_input, q columns 3 of 16, f16 partial keys, skew off, alpha 4, floor max(1, 0 %), cap "
        "20 %, sinks 0, recent 0");
}

TEST(InfinigenOptions, explicit_values_win_over_the_preset) {
    EXPECT_EQ(
        summary({{"preset", "paper"},
                 {"ratio", "1"},
                 {"alpha", "2.5"},
                 {"recent", "7"},
                 {"centroids", "on"},
                 {"strict", "off"},
                 {"counts", "per_head"},
                 {"group", "mean"}}),
        "infinigen: source attn_input, abs_sum columns 16 of 16, f32 partial keys, skew off, alpha 2.5, floor max(1, 0 "
        "%), cap 20 %, sinks 0, recent 7, mean of the group, counts per head, threshold inclusive, centroids");
}

TEST(InfinigenOptions, alpha_may_be_infinite) {
    EXPECT_NE(summary({{"alpha", "1e9"}}).find("alpha inf"), std::string::npos);
    EXPECT_NE(summary({{"alpha", "inf"}}).find("alpha inf"), std::string::npos);
}

TEST(InfinigenOptions, asks_for_the_evidence_of_its_source_only) {
    const uint64_t always = KVP_EVIDENCE_QUERY | KVP_EVIDENCE_KEY;
    EXPECT_EQ(infinigen({{"source", "own_query"}}).needs->evidence, always);
    EXPECT_EQ(infinigen({{"source", "attn_input"}}).needs->evidence, always | KVP_EVIDENCE_NORMED_INPUT);
    EXPECT_EQ(infinigen({{"source", "residual"}}).needs->evidence, always | KVP_EVIDENCE_RESIDUAL);
    EXPECT_EQ(infinigen({{"source", "residual_mid"}}).needs->evidence, always | KVP_EVIDENCE_RESIDUAL_MID);
}

TEST(InfinigenOptions, no_layer_before_the_first_can_guess_its_query) {
    EXPECT_EQ(infinigen({{"dense_layers", "0"}, {"source", "residual"}}).needs->dense_layers, 1u);
    EXPECT_EQ(infinigen({{"dense_layers", "0"}, {"source", "own_query"}}).needs->dense_layers, 0u);
    EXPECT_EQ(infinigen({{"dense_layers", "99"}}).needs->dense_layers, 4u);
}

TEST(InfinigenOptions, sidecar_sizes_follow_the_key_type) {
    struct Size {
        const char* type;
        uint64_t key_bytes;
        uint64_t scale_bytes;
        uint32_t scale_scope;
    };
    // ratio 0.35 of 16 columns: 5, of which 8-bit keys keep whole fours and 4-bit keys whole eights; pages of 64 rows.
    const Size sizes[] = {{"f32", 64 * 20, 0, 0},
                          {"f16", 64 * 10, 0, 0},
                          {"i8", 64 * 8, 64 * 4, KVP_SIDECAR_PAGE},
                          {"i4", 64 * 4, 20, KVP_SIDECAR_KV_HEAD}};
    for (const Size& size : sizes) {
        const FakeKvCore core = infinigen({{"key_type", size.type}, {"ratio", "0.35"}});
        uint64_t key_bytes = 0, scale_bytes = 0;
        uint32_t scale_scope = 0;
        for (uint32_t i = 0; i < core.needs->n_sidecars; i++) {
            const kvp_sidecar& sidecar = *core.needs->sidecars[i];
            EXPECT_EQ(sidecar.first_layer, 2u);
            if (kvp::view(sidecar.name) == "keys") key_bytes = sidecar.n_bytes;
            if (kvp::view(sidecar.name) == "scales") scale_bytes = sidecar.n_bytes, scale_scope = sidecar.scope;
        }
        EXPECT_EQ(key_bytes, size.key_bytes) << size.type;
        EXPECT_EQ(scale_bytes, size.scale_bytes) << size.type;
        EXPECT_EQ(scale_scope, size.scale_scope) << size.type;
    }
}

TEST(InfinigenOptions, refuses_a_negative_number_that_is_not_the_sentinel) {
    const FakeKvCore core = infinigen({{"ratio", "-0.5"}});
    EXPECT_EQ(core.created, KVP_ERROR_INVALID);
    EXPECT_NE(core.error().find("kv.infinigen.ratio"), std::string::npos);
}

TEST(InfinigenOptions, refuses_a_pool_that_the_forced_rows_fill) {
    const FakeKvCore core = infinigen({{"pool_tokens", "36"}});
    EXPECT_EQ(core.created, KVP_ERROR_INVALID);
    EXPECT_NE(core.error().find("pool_tokens = 36"), std::string::npos);
}

TEST(InfinigenOptions, unit_is_a_row_unless_it_is_said) {
    for (const char* preset : {"default", "lean", "paper", "artifact"}) {
        EXPECT_EQ(summary({{"preset", preset}}).find("groups"), std::string::npos) << preset;
        EXPECT_NE(summary({{"preset", preset}, {"unit", "group"}}).find(", whole groups of 16 rows"), std::string::npos)
            << preset;
    }
}

TEST(InfinigenOptions, a_group_is_as_long_as_the_core_says) {
    kvp_kv_model model = small_model();
    model.group_tokens = 32;
    const FakeKvCore core(plugin_path("infinigen"), model, {{"unit", "group"}, {"fixed_tokens", "32"}});
    ASSERT_EQ(core.created, KVP_OK) << core.error();
    EXPECT_NE(std::string(kvp::view(core.needs->summary)).find("groups of 32 rows"), std::string::npos);
}

TEST(InfinigenOptions, looks_ahead_only_where_it_guesses) {
    const FakeKvCore own = infinigen({{"source", "own_query"}, {"look_ahead", "2"}});
    EXPECT_EQ(own.created, KVP_ERROR_INVALID);
    EXPECT_NE(own.error().find("kv.infinigen.look_ahead = 2 is about guesses"), std::string::npos) << own.error();
    EXPECT_EQ(infinigen({{"source", "own_query"}}).created, KVP_OK);
    // "auto" guesses on some devices and not on others.
    const std::string guessed = summary({{"look_ahead", "2"}}, false);
    EXPECT_NE(guessed.find("guessed 2 layers ahead"), std::string::npos) << guessed;
    const std::string in_place = summary({{"look_ahead", "2"}}, true);
    EXPECT_NE(in_place.find("nothing guessed ahead"), std::string::npos) << in_place;
}

TEST(InfinigenOptions, refuses_fewer_rows_than_a_group) {
    EXPECT_EQ(infinigen({{"unit", "group"}, {"fixed_tokens", "16"}}).created, KVP_OK);
    EXPECT_EQ(infinigen({{"fixed_tokens", "15"}}).created, KVP_OK);
    const FakeKvCore core = infinigen({{"unit", "group"}, {"fixed_tokens", "15"}});
    EXPECT_EQ(core.created, KVP_ERROR_INVALID);
    EXPECT_NE(core.error().find("kv.infinigen.fixed_tokens = 15 is less than a group of 16 tokens"), std::string::npos)
        << core.error();
}

TEST(InfinigenOptions, every_default_of_the_table_passes_its_own_check) {
    const FakeKvCore core = infinigen({});
    for (uint32_t i = 0; i < core.descriptor().n_options; i++) {
        const kvp_option& option = *core.descriptor().options[i];
        const std::string key(kvp::view(option.key)), text(kvp::view(option.default_value));
        EXPECT_FALSE(kvp::view(option.doc).empty()) << key;
        if (option.type == KVP_OPTION_STR) {
            const std::string choices = "|" + std::string(kvp::view(option.choices)) + "|";
            EXPECT_NE(choices.find("|" + text + "|"), std::string::npos) << key;
        } else if (option.type != KVP_OPTION_BOOL) {
            EXPECT_GE(std::stod(text), option.minimum) << key;
            EXPECT_LE(std::stod(text), option.maximum) << key;
        }
    }
}

TEST(InfinigenOptions, names_the_op_that_the_device_lacks) {
    const FakeKvCore core(plugin_path("infinigen"), small_model(), {}, nullptr, {"kvp.select_rows/1"});
    EXPECT_EQ(core.created, KVP_UNSUPPORTED);
    EXPECT_NE(core.error().find("kvp.select_rows/1"), std::string::npos);
}

TEST(InfinigenOptions, skew_on_needs_a_calibration) {
    FakeKvCore core = infinigen({{"skew", "on"}});
    EXPECT_EQ(core.needs->needs_aux, 1u);
    core.open();
    EXPECT_THROW(core.prefill(0, 4, core.plain_rows(4)), kvp::Passed);
    EXPECT_NE(core.error().find("kvplane calibrate kv"), std::string::npos);
    // The run that makes the calibration hands over each layer's queries before they are written.
    const std::vector<float> query(4 * 64, 0.5f);
    ASSERT_EQ(core.table->calibrate(core.instance, 0, query.data(), query.data(), 4), KVP_OK);
    core.prefill(0, 4, core.plain_rows(4));
    EXPECT_EQ(core.segments[0][0].size(), 1u);
}

}  // namespace kvplane::test
