#include <gtest/gtest.h>

#include "small_model.h"

namespace kvplane::test {

TEST(Dense, reads_every_row_of_every_sequence_causally) {
    FakeKvCore core(plugin_path("dense"), small_model(), {});
    ASSERT_EQ(core.created, KVP_OK);
    core.open();
    core.open();
    core.step({{0, KVP_PHASE_PREFILL, 65}, {1, KVP_PHASE_PREFILL, 3}}, core.plain_rows(68));
    core.step({{0, KVP_PHASE_DECODE, 1}, {1, KVP_PHASE_DECODE, 1}}, core.plain_rows(2));
    for (const auto& layer : core.segments) {
        ASSERT_EQ(layer.size(), 2u);
        for (size_t sequence = 0; sequence < 2; sequence++) {
            ASSERT_EQ(layer[sequence].size(), 1u);
            const kvp_segment& segment = layer[sequence][0];
            EXPECT_EQ(segment.form, uint32_t{KVP_SEGMENT_RANGE});
            EXPECT_EQ(segment.flags, uint32_t{KVP_SEGMENT_CAUSAL});
            EXPECT_EQ(segment.begin, 0);
            EXPECT_EQ(segment.end, sequence == 0 ? 66 : 4);
        }
    }
}

TEST(Dense, asks_the_device_for_nothing) {
    FakeKvCore core(plugin_path("dense"), small_model(), {});
    EXPECT_TRUE(core.prepared.empty());
    EXPECT_EQ(core.needs->evidence, 0u);
    EXPECT_EQ(core.needs->n_sidecars, 0u);
}

TEST(Dense, serves_the_kv_kind_only) {
    FakeKvCore core(plugin_path("dense"), small_model(), {});
    EXPECT_NE(core.plugin().kind<void>("kv"), nullptr);
    EXPECT_EQ(core.plugin().kind<void>("device"), nullptr);
    EXPECT_EQ(core.plugin().kind<void>("kvx"), nullptr);
}

}  // namespace kvplane::test
