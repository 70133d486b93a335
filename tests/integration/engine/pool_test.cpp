// A pool with a limit really evicts: the count of rows never passes it, whatever the policy.
#include <gtest/gtest.h>

#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string folder = std::string(KVPLANE_GOLDEN_DIR) + "/tiny";
const std::string model = folder + "/tiny-gqa-f32.gguf";

std::vector<std::string> pool(const std::string& policy, int64_t tokens) {
    return {"kv.plugin=infinigen",
            "kv.infinigen.pool_policy=" + policy,
            "kv.infinigen.pool_tokens=" + std::to_string(tokens),
            "kv.infinigen.recent=8",
            "kv.infinigen.min_tokens=8",
            "memory.page_tokens=8",
            "schedule.chunk_tokens=16"};
}

class Pool : public testing::TestWithParam<const char*> {};

TEST_P(Pool, never_holds_more_rows_than_its_limit) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    TestEngine test(model, exact(pool(GetParam(), 64)));
    const auto logits = test.logits(golden.ids, 60, 0);
    EXPECT_EQ(logits.size(), golden.ids.size());
    EXPECT_EQ(test.engine->statistics().peak_rows, 64u);
    // 150 rows came, at most 64 stay; they leave by pages of 8, in every layer.
    EXPECT_EQ(test.engine->statistics().rows_evicted, 88u * test.engine->shape().layers);
}

TEST_P(Pool, is_no_limit_while_the_text_is_shorter) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const auto unlimited = TestEngine(model, exact(pool(GetParam(), 0))).logits(golden.ids, 60, 0);
    TestEngine limited(model, exact(pool(GetParam(), 160)));
    EXPECT_EQ(largest_difference(limited.logits(golden.ids, 60, 0), unlimited), 0);
    EXPECT_EQ(limited.engine->statistics().rows_evicted, 0u);
}

TEST_P(Pool, gives_the_same_logits_with_its_rows_in_the_host_tier) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    for (const uint32_t type : {KVP_TYPE_F32, KVP_TYPE_I8}) {
        const bool int8 = type == KVP_TYPE_I8;
        auto settings = exact(pool(GetParam(), 64));
        if (int8) settings = with_int8_rows(settings);
        const auto in_place = TestEngine(model, settings).logits(golden.ids, 60, 0);
        settings.push_back("tiers.host.access=copy");
        settings.push_back("memory.staging_pages=2");
        settings.push_back("tiers.device.kv_bytes=" +
                           std::to_string(12 * 2 * 8 * kvp_row_bytes(type, 16)));  // 12 pages
        settings.push_back("kv.infinigen.source=own_query");
        TestEngine copying(model, settings);
        EXPECT_LE(largest_difference(copying.logits(golden.ids, 60, 0), in_place), int8 ? kInt8RowsError : 1e-4);
        EXPECT_GT(copying.engine->transfers().at("host to device").bytes, 0u);
    }
}

INSTANTIATE_TEST_SUITE_P(Policies, Pool, testing::Values("fifo", "lru", "counter"));

}  // namespace
}  // namespace kvplane::test
