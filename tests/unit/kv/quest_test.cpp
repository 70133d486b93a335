// Which pages quest reads, with the real ops of the cpu device, against lists of a NumPy program.
#include <gtest/gtest.h>

#include "golden_text.h"

namespace kvplane::test {
namespace {

FakeHost::Options options_of(const nlohmann::json& given) {
    return {{"tokens", given["tokens"].dump()},
            {"page_tokens", given["page_tokens"].dump()},
            {"min_pages", given["min_pages"].dump()},
            {"group", given["group"]},
            {"dense_layers", "0"}};
}

class GoldenQuest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenQuest, reads_the_pages_that_the_reference_reads) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    const GoldenText text(GetParam());
    // The chunks of a prompt must not matter, nor where they end in a page.
    for (const int64_t chunk : {int64_t{7}, int64_t{16}, text.prompt()}) {
        FakeKvCore core(plugin_path("quest"), text.model, options_of(text.golden["options"]), &cpu());
        ASSERT_EQ(core.created, KVP_OK) << core.error();
        core.open();
        for (int64_t begin = 0; begin < text.prompt(); begin += chunk) {
            const int64_t end = std::min(text.prompt(), begin + chunk);
            core.prefill(0, end - begin, text.rows(core, begin, end), end == text.prompt());
        }
        for (const auto& step : text.golden["steps"]) {
            const int64_t position = step["position"];
            core.decode(0, text.rows(core, position, position + 1));
            for (uint32_t head = 0; head < text.model.n_kv_heads; head++) {
                ASSERT_EQ(rows_read(core.segments[0][0], head, position), step["rows"][head].get<std::vector<int>>())
                    << "position " << position << ", KV head " << head << ", chunks of " << chunk;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenQuest,
                         testing::Values("quest-mha-d16", "quest-gqa3-d16", "quest-gqa2-max-d32", "quest-gqa2-mean-d16",
                                         "quest-one-page-d16", "quest-budget-border-d16"),
                         [](const auto& info) { return test_name(info.param); });

TEST(Quest, follows_a_rewind_into_a_page) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    const GoldenText text("quest-mha-d16");
    FakeKvCore core(plugin_path("quest"), text.model, options_of(text.golden["options"]), &cpu());
    core.open();
    core.prefill(0, 100, text.rows(core, 0, 100));
    // Ten tokens of another text, which the rewind takes back.
    for (int64_t i = 0; i < 10; i++) {
        FakeRows other = text.rows(core, i, i + 1);
        for (float& value : other.key) value *= 50;
        core.decode(0, other);
    }
    ASSERT_EQ(core.table->seq_rewind(core.instance, core.sequences[0].abi.state, 100), KVP_OK);
    core.sequences[0].abi.n_cached = 100;
    for (int64_t position = 100; position < text.prompt(); position++) {
        core.decode(0, text.rows(core, position, position + 1));
    }
    const auto& step = text.golden["steps"][0];
    core.decode(0, text.rows(core, text.prompt(), text.prompt() + 1));
    for (uint32_t head = 0; head < text.model.n_kv_heads; head++) {
        EXPECT_EQ(rows_read(core.segments[0][0], head, text.prompt()), step["rows"][head].get<std::vector<int>>());
    }
}

TEST(Quest, reads_a_share_of_the_past_in_whole_pages) {
    auto model = small_model();
    FakeKvCore core(plugin_path("quest"), model, {{"share", "0.25"}, {"min_pages", "1"}}, &cpu());
    core.open();
    core.prefill(0, 400, core.plain_rows(400));
    core.decode(0, core.plain_rows(1));
    EXPECT_EQ(rows_read(core.segments[0][0], 0, 400).size(), 400u);      // a dense layer
    EXPECT_EQ(rows_read(core.segments[2][0], 0, 400).size(), 5u * 16u);  // 100 rows, 6 pages, of which one is new
}

TEST(Quest, refuses_pages_that_do_not_divide_the_memorys) {
    FakeKvCore core(plugin_path("quest"), small_model(), {{"page_tokens", "48"}});
    EXPECT_EQ(core.created, KVP_ERROR_INVALID);
    EXPECT_NE(core.error().find("page_tokens"), std::string::npos) << core.error();
}

}  // namespace
}  // namespace kvplane::test
