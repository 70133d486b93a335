// Where rows are must not change what comes out: in place, spilled to the host tier, or copied back in pieces.
#include <gtest/gtest.h>

#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string folder = std::string(KVPLANE_GOLDEN_DIR) + "/tiny";
const std::string model = folder + "/tiny-gqa-f32.gguf";  // 3 layers

TEST(Tiers, a_device_tier_of_eight_pages_gives_the_same_logits_when_copying) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    for (int64_t prompt : {1, 37, 150}) {
        TestEngine test(model, exact(tiny_limits(model, 8)));
        const auto found = test.logits(golden.ids, prompt, 0);
        for (const auto& [position, row] : golden.rows) {
            EXPECT_LE(largest_difference(found.at(position), row), 1e-4) << "prompt " << prompt << " row " << position;
        }
        const auto tiers = test.engine->tiers();
        EXPECT_LE(tiers.at("device").peak_bytes, tiers.at("device").budget_bytes);
        EXPECT_GT(tiers.at("host").peak_bytes, 0u);
        EXPECT_GT(test.engine->transfers().at("host to device").bytes, 0u);
    }
}

TEST(Tiers, a_full_device_tier_continues_in_the_host_tier_in_place) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    auto settings = exact(tiny_limits(model, 8));
    settings.push_back("tiers.host.access=direct");
    TestEngine test(model, settings);
    const auto found = test.logits(golden.ids, 100, 0);
    for (const auto& [position, row] : golden.rows) EXPECT_LE(largest_difference(found.at(position), row), 1e-4);
    EXPECT_TRUE(test.engine->transfers().empty());
    EXPECT_EQ(test.engine->tiers().at("device").peak_bytes, test.engine->tiers().at("device").budget_bytes);
}

TEST(Tiers, int8_rows_give_the_same_logits_wherever_they_are) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const auto expected = TestEngine(model, with_int8_rows(exact())).logits(golden.ids, 100, 0);
    for (const auto& [position, row] : golden.rows) {
        EXPECT_LE(largest_difference(expected.at(position), row), kInt8RowsError) << "row " << position;
        EXPECT_GT(largest_difference(expected.at(position), row), 0) << "row " << position;
    }
    for (const char* access : {"tiers.host.access=copy", "tiers.host.access=direct"}) {
        auto settings = with_int8_rows(exact(tiny_limits(model, 8, {}, 4, KVP_TYPE_I8)));
        settings.push_back(access);
        TestEngine test(model, settings);
        EXPECT_LE(largest_difference(test.logits(golden.ids, 100, 0), expected), kInt8RowsError) << access;
        EXPECT_EQ(test.engine->tiers().at("device").budget_bytes, 8 * 2 * 4 * (2 * 16 + 4)) << access;
        EXPECT_GT(test.engine->tiers().at("host").peak_bytes, 0u) << access;
    }
}

TEST(Tiers, nothing_moves_while_everything_fits) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    TestEngine test(model, exact({"tiers.host.access=copy"}));
    test.logits(golden.ids, 100, 0);
    EXPECT_TRUE(test.engine->transfers().empty());
    EXPECT_EQ(test.engine->tiers().at("host").peak_bytes, 0u);
}

TEST(Tiers, chunks_of_any_length_give_the_same_logits) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const auto n = static_cast<int64_t>(golden.ids.size());
    for (const char* chunk : {"schedule.chunk_tokens=16", "schedule.chunk_tokens=17", "schedule.chunk_tokens=128"}) {
        TestEngine test(model, exact({chunk}));
        const auto found = test.logits(golden.ids, n, 0);
        for (const auto& [position, row] : golden.rows) EXPECT_LE(largest_difference(found.at(position), row), 1e-4);
    }
}

TEST(Tiers, a_text_that_fits_finds_all_its_room_after_one_that_spilled) {
    // 3 layers, pages of 4: 12 tokens are 9 pages; with 2 more they fit 11, but not beside slots that staging had kept.
    auto settings = exact(tiny_limits(model, 11));
    settings[1] = "memory.staging_pages=8";
    TestEngine test(model, settings);
    const std::vector<int32_t> text(80, 7);
    test.logits(text, 40, 79);
    EXPECT_GT(test.engine->transfers().at("host to device").bytes, 0u);
    const uint64_t before = test.engine->transfers().at("host to device").bytes;
    EXPECT_EQ(test.logits(std::vector<int32_t>(12, 7), 6, 0).size(), 12u);
    EXPECT_EQ(test.engine->transfers().at("host to device").bytes, before);
}

TEST(Tiers, a_huge_budget_costs_nothing) {
    TestEngine test(model, exact({"tiers.host.kv_bytes=60TiB", "tiers.device.kv_bytes=60TiB"}));
    EXPECT_EQ(test.logits(std::vector<int32_t>(12, 7), 6, 0).size(), 12u);
    EXPECT_EQ(test.engine->tiers().at("host").budget_bytes, uint64_t{60} << 40);
}

ErrorKind kind_of_failure(std::vector<std::string> settings) {
    try {
        TestEngine test(model, std::move(settings));
        test.logits(std::vector<int32_t>(100, 5), 50, 99);
    } catch (const Error& error) {
        return error.kind();
    }
    return ErrorKind::runtime;
}

TEST(Tiers, a_budget_below_one_page_does_not_fit_memory) {
    EXPECT_EQ(kind_of_failure({"tiers.device.kv_bytes=100"}), ErrorKind::memory);
}

TEST(Tiers, a_device_tier_without_room_to_stage_does_not_fit_memory) {
    EXPECT_EQ(kind_of_failure(exact(tiny_limits(model, 5))), ErrorKind::memory);
}

TEST(Tiers, a_host_tier_too_small_for_the_text_does_not_fit_memory) {
    auto settings = exact(tiny_limits(model, 8));
    settings.push_back("tiers.host.kv_bytes=8KiB");
    EXPECT_EQ(kind_of_failure(settings), ErrorKind::memory);
}

}  // namespace
}  // namespace kvplane::test
