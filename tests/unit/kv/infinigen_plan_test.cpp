// The segments that attention gets, for texts of many lengths. No op runs here: only what is planned counts.
#include <gtest/gtest.h>

#include "small_model.h"

namespace kvplane::test {

namespace {

struct Infinigen : FakeKvCore {
    explicit Infinigen(FakeHost::Options options = {}, bool in_place = false)
        : FakeKvCore(plugin_path("infinigen"), shape(in_place), std::move(options)), weights(model) {
        kvp::check(created);
        weights.give_to(*this);
    }
    static kvp_kv_model shape(bool in_place) {
        kvp_kv_model model = small_model();
        model.reads_tiers_in_place = in_place;
        return model;
    }
    void prompt(uint32_t sequence, int64_t n_rows) { prefill(sequence, n_rows, plain_rows(n_rows)); }
    void token(uint32_t sequence) { decode(sequence, plain_rows(1)); }

    PlainWeights weights;
};

void expect_range(const kvp_segment& segment, int64_t begin, int64_t end) {
    EXPECT_EQ(segment.form, uint32_t{KVP_SEGMENT_RANGE});
    EXPECT_EQ(segment.flags, uint32_t{KVP_SEGMENT_CAUSAL});
    EXPECT_EQ(segment.begin, begin);
    EXPECT_EQ(segment.end, end);
}

void expect_dense(const std::vector<kvp_segment>& segments, int64_t n_rows) {
    ASSERT_EQ(segments.size(), 1u);
    expect_range(segments[0], 0, n_rows);
}

}  // namespace

TEST(InfinigenPlan, a_prompt_is_read_whole_in_every_layer_and_chunk) {
    Infinigen core;
    core.open();
    core.prefill(0, 130, core.plain_rows(130), false);
    for (const auto& layer : core.segments) expect_dense(layer[0], 130);
    core.prefill(0, 1, core.plain_rows(1), true);
    for (const auto& layer : core.segments) expect_dense(layer[0], 131);
    EXPECT_TRUE(core.fetches.empty());
}

TEST(InfinigenPlan, a_token_reads_sinks_choice_recent_rows_and_centroids) {
    Infinigen core;
    core.open();
    core.prompt(0, 300);
    core.token(0);
    expect_dense(core.segments[0][0], 301);
    expect_dense(core.segments[1][0], 301);
    for (uint32_t layer = 2; layer < 4; layer++) {
        const auto& segments = core.segments[layer][0];
        ASSERT_EQ(segments.size(), 4u);
        expect_range(segments[0], 0, 4);
        EXPECT_EQ(segments[1].form, uint32_t{KVP_SEGMENT_ROW_LIST});
        EXPECT_GE(segments[1].max_count, 60u);  // the cap: 20 % of 300
        EXPECT_LE(segments[1].max_count, 264u);
        EXPECT_EQ(segments[1].index_stride, segments[1].max_count);
        EXPECT_NE(segments[1].index, 0u);
        EXPECT_NE(segments[1].count, 0u);
        expect_range(segments[2], 268, 301);
        EXPECT_EQ(segments[3].form, uint32_t{KVP_SEGMENT_VIRTUAL});
        EXPECT_EQ(segments[3].virtual_count, 5u);  // pages of 300 rows
        EXPECT_EQ(segments[3].virtual_type, uint32_t{KVP_TYPE_F32});
        EXPECT_NE(segments[3].virtual_bias, 0u);
    }
}

TEST(InfinigenPlan, fetches_one_layer_ahead_and_hands_the_ticket_on) {
    for (const char* source : {"attn_input", "residual", "residual_mid"}) {
        Infinigen core(FakeHost::Options{{"source", source}});
        core.open();
        core.prompt(0, 300);
        core.token(0);
        ASSERT_EQ(core.fetches.size(), 2u) << source;
        for (uint32_t i = 0; i < 2; i++) {
            EXPECT_EQ(core.fetches[i].layer, i + 2);
            EXPECT_EQ(core.fetches[i].during, i + 1);
            EXPECT_EQ(core.segments[i + 2][0].at(1).ticket, core.fetches[i].ticket) << source;
        }
    }
}

TEST(InfinigenPlan, looks_two_layers_ahead_when_told_to) {
    Infinigen core(FakeHost::Options{{"source", "residual_mid"}, {"look_ahead", "2"}, {"dense_layers", "0"}});
    core.open();
    core.prompt(0, 300);
    core.token(0);
    expect_dense(core.segments[0][0], 301);
    expect_dense(core.segments[1][0], 301);
    ASSERT_EQ(core.fetches.size(), 2u);
    for (uint32_t i = 0; i < 2; i++) {
        EXPECT_EQ(core.fetches[i].layer, i + 2);
        EXPECT_EQ(core.fetches[i].during, i);
        EXPECT_EQ(core.segments[i + 2][0].at(1).ticket, core.fetches[i].ticket);
    }
}

TEST(InfinigenPlan, the_own_query_selects_without_a_fetch) {
    Infinigen core(FakeHost::Options{{"dense_layers", "0"}}, true);
    core.open();
    core.prompt(0, 300);
    core.token(0);
    EXPECT_TRUE(core.fetches.empty());
    for (const auto& layer : core.segments) ASSERT_EQ(layer[0].size(), 4u);
    EXPECT_EQ(core.segments[0][0][1].ticket, 0u);
}

TEST(InfinigenPlan, reads_everything_where_forced_rows_and_floor_leave_nothing_out) {
    for (int64_t length : {1, 63, 64, 65, 99, 100}) {  // 4 sinks + 32 recent + 64 at least
        Infinigen core;
        core.open();
        core.prompt(0, length);
        core.token(0);
        for (const auto& layer : core.segments) expect_dense(layer[0], length + 1);
    }
    Infinigen core;
    core.open();
    core.prompt(0, 101);
    core.token(0);
    EXPECT_EQ(core.segments[2][0].size(), 4u);
}

TEST(InfinigenPlan, page_borders) {
    for (int64_t length : {127, 128, 129}) {
        Infinigen core;
        core.open();
        core.prompt(0, length);
        core.token(0);
        const auto& segments = core.segments[3][0];
        ASSERT_EQ(segments.size(), 4u) << length;
        expect_range(segments[2], length - 32, length + 1);
        EXPECT_EQ(segments[3].virtual_count, length <= 128 ? 2u : 3u) << length;
    }
}

TEST(InfinigenPlan, the_paper_forces_the_token_alone) {
    Infinigen core(FakeHost::Options{{"preset", "paper"}});
    core.open();
    core.prompt(0, 10);
    core.token(0);
    const auto& segments = core.segments[2][0];
    ASSERT_EQ(segments.size(), 2u);
    EXPECT_EQ(segments[0].form, uint32_t{KVP_SEGMENT_ROW_LIST});
    expect_range(segments[1], 10, 11);
}

TEST(InfinigenPlan, sequences_of_one_step_differ_in_phase_and_length) {
    Infinigen core;
    for (int i = 0; i < 4; i++) core.open();
    core.prompt(0, 200);
    core.prompt(1, 50);
    core.prompt(3, 150);
    core.step({{0, KVP_PHASE_DECODE, 1},
               {1, KVP_PHASE_DECODE, 1},
               {2, KVP_PHASE_PREFILL, 70, false},
               {3, KVP_PHASE_DECODE, 1}},
              core.plain_rows(73));
    const auto& layer = core.segments[2];
    ASSERT_EQ(layer[0].size(), 4u);
    expect_range(layer[0][2], 168, 201);
    expect_dense(layer[1], 51);
    expect_dense(layer[2], 70);
    ASSERT_EQ(layer[3].size(), 4u);
    expect_range(layer[3][2], 118, 151);
    EXPECT_NE(layer[0][1].index, layer[3][1].index);
    EXPECT_NE(layer[0][3].virtual_bias, layer[3][3].virtual_bias);
    ASSERT_EQ(core.fetches.size(), 4u);  // two sequences, two layers
    EXPECT_EQ(core.fetches[0].sequence, 0u);
    EXPECT_EQ(core.fetches[1].sequence, 3u);
}

TEST(InfinigenPlan, several_rows_at_once_are_read_whole) {
    Infinigen core;
    core.open();
    core.prompt(0, 300);
    core.step({{0, KVP_PHASE_DECODE, 3}}, core.plain_rows(3));
    for (const auto& layer : core.segments) expect_dense(layer[0], 303);
}

TEST(InfinigenPlan, a_fork_selects_on_its_own) {
    Infinigen core;
    core.open();
    core.prompt(0, 300);
    kvp_kv_state* state = nullptr;
    ASSERT_EQ(core.table->seq_fork(core.instance, core.sequences[0].abi.state, 2, &state), KVP_OK);
    FakeKvCore::Sequence& fork = core.sequences.emplace_back(core.sequences[0]);
    fork.abi.state = state;
    core.step({{0, KVP_PHASE_DECODE, 1}, {1, KVP_PHASE_DECODE, 1}}, core.plain_rows(2));
    EXPECT_EQ(core.segments[2][0].size(), 4u);
    EXPECT_EQ(core.segments[2][1].size(), 4u);
    EXPECT_NE(core.segments[2][0][1].index, core.segments[2][1][1].index);
}

TEST(InfinigenPlan, scratch_stays_within_what_was_declared) {
    for (const char* preset : {"default", "paper", "artifact"}) {
        Infinigen core(FakeHost::Options{{"preset", preset}, {"cap", "1"}, {"max_tokens", "0"}});
        core.open();
        core.prompt(0, FakeKvCore::capacity - 1);
        core.token(0);
        EXPECT_GT(core.scratch_bytes(), 0u);
        EXPECT_LE(core.scratch_bytes(), core.needs->scratch_bytes) << preset;
    }
}

}  // namespace kvplane::test
