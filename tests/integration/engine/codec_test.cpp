// What cached rows are made of must not depend on where they are, and must cost no more than its bits.
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string folder = std::string(KVPLANE_GOLDEN_DIR) + "/tiny";
const std::string model = folder + "/tiny-gqa-f32.gguf";  // 3 layers, 2 KV heads of 16

struct Case {
    const char* codec;
    double error;  // most that logits move by, in f32 arithmetic
    std::vector<std::string> options;
};

std::vector<std::string> settings(const Case& one, std::vector<std::string> more = {}) {
    more.insert(more.end(), one.options.begin(), one.options.end());
    more.insert(more.end(), {"device.exact_f32=true", "device.threads=2", std::string("kv.codec=") + one.codec});
    return more;
}

// 32-token pages, which every codec can do with. The device tier holds 8 of some 15.
std::vector<std::string> copying() {
    return {"memory.page_tokens=32", "memory.staging_pages=2", "tiers.host.access=copy", "schedule.chunk_tokens=32"};
}

class Codecs : public testing::TestWithParam<Case> {};

TEST_P(Codecs, cost_no_more_than_their_bits) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const auto found = TestEngine(model, settings(GetParam())).logits(golden.ids, 90, 0);
    double most = 0;
    for (const auto& [position, row] : golden.rows) most = std::max(most, largest_difference(found.at(position), row));
    EXPECT_LE(most, GetParam().error);
    if (GetParam().error > 1e-3) {
        EXPECT_GT(most, GetParam().error / 100);  // it really is in use
    }
}

TEST_P(Codecs, give_the_same_logits_wherever_rows_are) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const auto expected = TestEngine(model, settings(GetParam(), {"memory.page_tokens=32", "schedule.chunk_tokens=32"}))
                              .logits(golden.ids, 100, 0);
    auto small = settings(GetParam(), copying());
    TestEngine whole(model, small);
    const uint64_t page_bytes = whole.engine->kv_bytes_per_token() * 32 / 3;
    small.push_back("tiers.device.kv_bytes=" + std::to_string(9 * page_bytes));
    TestEngine test(model, small);
    const bool is_requantised = std::string(GetParam().codec) == "i8";  // as its weights are, block by block
    EXPECT_LE(largest_difference(test.logits(golden.ids, 100, 0), expected), is_requantised ? kInt8RowsError : 1e-4);
    EXPECT_EQ(test.engine->tiers().at("device").peak_bytes, 9 * page_bytes);
}

TEST_P(Codecs, are_read_by_the_recall_meter) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    TestEngine test(model, settings(GetParam()));
    test.engine->recall_meter().set_every(7);
    test.logits(golden.ids, 60, 150);
    const RecallSums& sums = test.engine->recall_meter().sums();
    ASSERT_GT(sums.samples, 0);
    EXPECT_NEAR(sums.mass / sums.samples, 1, 1e-6);  // dense attention sees all tokens
}

TEST_P(Codecs, serve_a_strategy_that_selects) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const std::vector<std::string> selecting = {"kv.plugin=infinigen", "kv.infinigen.recent=8",
                                                "kv.infinigen.min_tokens=150", "memory.page_tokens=32"};
    // With a floor as large as the text, infinigen reads what dense reads.
    const auto dense = TestEngine(model, settings(GetParam(), {"memory.page_tokens=32"})).logits(golden.ids, 100, 100);
    const auto all = TestEngine(model, settings(GetParam(), selecting)).logits(golden.ids, 100, 100);
    EXPECT_LE(largest_difference(all, dense), std::string(GetParam().codec) == "i8" ? kInt8RowsError : 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, Codecs,
                         testing::Values(Case{"f32", 1e-4, {}}, Case{"f16", 1e-2, {}}, Case{"bf16", 0.1, {}},
                                         Case{"i8", 0.25, {}}, Case{"int8", 0.25, {}}, Case{"int4", 4, {}},
                                         Case{"kivi", 4, {"codec.kivi.recent_tokens=32"}},
                                         Case{"kivi", 16, {"codec.kivi.recent_tokens=0", "codec.kivi.bits=2"}}),
                         [](const auto& info) {
                             return std::string(info.param.codec) + (info.param.options.size() == 2 ? "_2_bits" : "");
                         });

TEST(Kivi, keeps_the_newest_rows_as_f16) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const auto f16 = TestEngine(model, settings({"f16", 0, {}})).logits(golden.ids, 60, 0);
    const auto all_recent =
        TestEngine(model, settings({"kivi", 0, {"codec.kivi.recent_tokens=150"}})).logits(golden.ids, 60, 0);
    EXPECT_LE(largest_difference(all_recent, f16), 1e-5);
    const auto few =
        TestEngine(model, settings({"kivi", 0, {"codec.kivi.recent_tokens=64"}})).logits(golden.ids, 60, 0);
    for (int64_t position = 0; position < 95; ++position) {  // 95 rows: the first 31 are no whole block
        ASSERT_LE(largest_difference(few.at(position), f16.at(position)), 1e-5) << position;
    }
    EXPECT_GT(largest_difference(few.at(99), f16.at(99)), 1e-3);
}

// Pages that leave take whole blocks with them. Pages longer than the text never leave: then attention alone leaves rows out.
TEST(Kivi, goes_with_a_window_whose_pages_leave) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const auto logits = [&](const Case& one, std::vector<std::string> more, int64_t n_prompt = 100) {
        more.insert(more.end(), {"kv.plugin=window", "kv.window.tokens=40"});
        return TestEngine(model, settings(one, std::move(more))).logits(golden.ids, n_prompt, 0);
    };
    const Case kivi{"kivi", 0, {"codec.kivi.recent_tokens=32"}};
    const auto expected = logits(kivi, {"memory.page_tokens=256"});
    // Sums are taken in another order, and with that a value now and then gets the code beside its own, a step of K or V of one
    // token. f16 moves all of some ten thousand values by up to half a step; a block in the wrong place would do as much.
    const double all_codes = largest_difference(logits({"f16", 0, {}}, {"memory.page_tokens=32"}), expected);
    const double some_codes = all_codes / 100;
    EXPECT_LE(largest_difference(logits(kivi, {"memory.page_tokens=32"}), expected), some_codes);
    auto small = copying();
    small.push_back("tiers.device.kv_bytes=" +
                    std::to_string(9 * 32 * 2 * (2 * 16 * 5 / 8 + 10)));  // and a little more
    EXPECT_LE(
        largest_difference(logits(kivi, small), logits(kivi, {"memory.page_tokens=256", "schedule.chunk_tokens=32"})),
        some_codes);
}

// Then rows that are not encoded yet leave, and those behind them move. Where the prompt's rows leave from chunk to chunk the
// cache never has more than a page of sinks, the window, a page that is half out of it and a chunk: 104 and no block.
TEST(Kivi, keeps_the_newest_rows_of_a_window_as_f16) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const auto logits = [&](const Case& one, const char* prompt) {
        return TestEngine(model, settings(one, {"kv.plugin=window", "kv.window.tokens=40", "memory.page_tokens=32",
                                                "schedule.chunk_tokens=16", std::string("kv.window.prompt=") + prompt}))
            .logits(golden.ids, 70, 0);
    };
    const Case f16{"f16", 0, {}}, all{"kivi", 0, {"codec.kivi.recent_tokens=150"}};
    const Case most{"kivi", 0, {"codec.kivi.recent_tokens=104"}};
    EXPECT_LE(largest_difference(logits(all, "full"), logits(f16, "full")), 1e-5);
    EXPECT_LE(largest_difference(logits(most, "window"), logits(f16, "window")), 1e-5);
}

TEST(Kivi, goes_on_in_a_fork_of_a_window) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const std::span<const int32_t> ids(golden.ids);
    for (const char* recent : {"codec.kivi.recent_tokens=0", "codec.kivi.recent_tokens=48"}) {
        const auto options =
            settings({"kivi", 0, {recent}}, {"kv.plugin=window", "kv.window.tokens=40", "memory.page_tokens=32"});
        const auto expected = TestEngine(model, options).logits(golden.ids, 70, 133);
        TestEngine test(model, options, {2, 0});
        Engine& engine = *test.engine;
        const auto run = [&] {
            while (engine.step()) {
            }
        };
        std::map<int64_t, std::vector<float>> found;
        const auto keep = [&](int64_t position, std::span<float> row) {
            found[position].assign(row.begin(), row.end());
        };
        const uint64_t text = engine.open_text(200);
        engine.feed(text, ids.first(70), Feed::prompt_end);
        engine.feed(text, ids.subspan(70, 63), Feed::decode);
        run();
        const uint64_t fork = engine.fork(text, 200);
        engine.feed(text, std::vector<int32_t>(30, 7), Feed::decode);  // must not disturb the fork
        engine.feed(fork, ids.subspan(133), Feed::decode, keep);
        run();
        EXPECT_LE(largest_difference(found, expected), 1e-4) << recent;
    }
}

TEST(Kivi, is_refused_where_it_cannot_work) {
    const auto refusal = [](std::vector<std::string> more) -> std::string {
        try {
            TestEngine test(model, settings({"kivi", 0, {}}, std::move(more)));
        } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::config);
            return error.what();
        }
        return "not refused";
    };
    EXPECT_NE(refusal({"memory.page_tokens=16"}).find("32 tokens together"), std::string::npos);
    EXPECT_NE(refusal({"kv.plugin=snapkv"}).find("snapkv lets single rows go"), std::string::npos);
    EXPECT_NE(refusal({"kv.plugin=infinigen", "kv.infinigen.pool_policy=lru", "kv.infinigen.pool_tokens=256",
                       "memory.page_tokens=32"})
                  .find("a pool"),
              std::string::npos);
}

// A device that knows f16 and f32 rows alone has the core decode the others.
TEST(DecodedRows, give_what_a_device_gives_that_reads_the_codec_itself) {
    const GoldenLogits golden(folder, "tiny-gqa-f32");
    const auto exact = TestEngine(model, settings({"f32", 0, {}})).logits(golden.ids, 60, 0);
    for (const char* codec : {"bf16", "int8", "int4"}) {
        const Case one{codec, 0, {}};
        const auto native = TestEngine(model, settings(one)).logits(golden.ids, 60, 0);
        setenv("KVPLANE_TEST_REFUSED_OPS", "row types", 1);
        TestEngine test(model, settings(one, {std::string("device.plugin=") + KVPLANE_REFUSING_DEVICE}));
        unsetenv("KVPLANE_TEST_REFUSED_OPS");
        ASSERT_TRUE(test.engine->decodes_rows());
        // The codec gets rows as f16, the device as f32, so now and then a code is the next one: both are as far from
        // what is exact, and no farther from each other.
        const auto found = test.logits(golden.ids, 60, 0);
        const double cost = largest_difference(native, exact);
        EXPECT_LE(largest_difference(found, exact), 1.5 * cost) << codec;
        EXPECT_LE(largest_difference(found, native), 1.5 * cost) << codec;
        double mean_cost = 0, mean_apart = 0;
        for (const auto& [position, row] : native) {
            mean_cost += largest_difference(row, exact.at(position));
            mean_apart += largest_difference(row, found.at(position));
        }
        EXPECT_LE(mean_apart, mean_cost) << codec;
    }
}

}  // namespace
}  // namespace kvplane::test
