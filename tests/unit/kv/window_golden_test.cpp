// Which tokens the window keeps and reads, and StreamingLLM's turned keys and attention, against a NumPy program
// (tests/reference/window_rows.py).
#include <gtest/gtest.h>

#include "rows_read.h"
#include "support/golden.h"

namespace kvplane::test {
namespace {

using nlohmann::json;

constexpr double kUnit = 0x1p-24;  // what rounding to F32 may do to a value, as a share of it
constexpr double kWritten = 5e-8;  // golden values have 7 digits behind the point

FakeHost::Options options_of(const json& given) {
    FakeHost::Options options;
    for (const auto& [key, value] : given.items())
        options[key] = value.is_string() ? value.get<std::string>() : value.dump();
    return options;
}

// Begins and ends of the runs of ascending tokens.
std::vector<int> runs(const std::vector<int>& tokens) {
    std::vector<int> bounds;
    for (const int token : tokens) {
        if (!bounds.empty() && bounds.back() == token) {
            bounds.back() = token + 1;
        } else {
            bounds.insert(bounds.end(), {token, token + 1});
        }
    }
    return bounds;
}

class WindowText {
public:
    WindowText(const json& text, kvp_kv_model model, FakeHost::Options options, CpuDevice* device)
        : core(plugin_path("window"), model, std::move(options), device), text_(text) {
        EXPECT_EQ(core.created, KVP_OK) << core.error();
        core.open();
    }

    // Runs a step of the golden file with the given rows and compares what it keeps and reads.
    void step(size_t number, const FakeRows& rows) {
        const json& step = text_["steps"][number];
        const int64_t n_rows = step["rows"];
        const bool last_chunk = number + 1 == text_["steps"].size() || !text_["steps"][number + 1]["is_prompt"];
        const uint32_t phase = step["is_prompt"] ? KVP_PHASE_PREFILL : KVP_PHASE_DECODE;
        core.step({{0, phase, n_rows, last_chunk}}, rows);
        for (uint32_t layer = 0; layer < core.model.n_layers; layer++) {
            const int64_t n_past = core.n_rows(0, layer) - n_rows;
            for (uint32_t head = 0; head < core.model.n_kv_heads; head++) {
                std::vector<int> kept = core.sequences[0].layers[layer].tokens[head];
                kept.resize(static_cast<size_t>(n_past));
                EXPECT_EQ(runs(kept), step["kept"].get<std::vector<int>>());
                std::vector<int> read;
                for (const kvp_segment& segment : core.segments[layer][0]) {  // of virtual rows: the sinks
                    const auto first = segment.form == KVP_SEGMENT_VIRTUAL ? kept.begin() : kept.end();
                    read.insert(read.end(), first, first + std::ptrdiff_t(segment.virtual_count));
                }
                for (const int row : rows_read(core.segments[layer][0], head, n_past)) {
                    read.push_back(kept[static_cast<size_t>(row)]);
                }
                EXPECT_EQ(runs(read), step["read"].get<std::vector<int>>());
            }
        }
    }

    FakeKvCore core;

private:
    const json& text_;
};

}  // namespace

TEST(WindowGolden, keeps_and_reads_the_tokens_that_the_reference_does) {
    const json golden = read_golden("window.json");
    auto model = small_model();
    model.page_tokens = golden["page_tokens"];
    for (const json& given : golden["texts"]) {
        SCOPED_TRACE(given["options"].dump());
        WindowText text(given, model, options_of(given["options"]), nullptr);
        for (size_t step = 0; step < given["steps"].size(); step++) {
            text.step(step, text.core.plain_rows(given["steps"][step]["rows"]));
            ASSERT_FALSE(testing::Test::HasFailure()) << "step " << step;
        }
    }
}

namespace {

class GoldenStreaming : public testing::TestWithParam<const char*> {};

// Keys of the sinks as attention reads them: turned ones, or those of the cache while nothing lies between.
const float* sink_key(FakeKvCore& core, uint32_t head, int64_t sink) {
    const kvp_segment& first = core.segments[0][0][0];
    if (first.form != KVP_SEGMENT_VIRTUAL) return core.row(core.sequences[0].layers[0], head, sink);
    return reinterpret_cast<const float*>(first.virtual_rows) +
           (head * first.virtual_stride + static_cast<uint64_t>(sink)) * core.row_values();
}

double length_of(const std::vector<double>& vector) {
    double squares = 0;
    for (const double value : vector) squares += value * value;
    return std::sqrt(squares);
}

}  // namespace

TEST_P(GoldenStreaming, turns_the_sinks_and_attends_as_the_paper_does) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    const json golden = read_golden(std::string(GetParam()) + ".json");
    auto model = small_model();
    model.n_layers = 1;
    model.page_tokens = golden["page_tokens"];
    model.n_kv_heads = golden["kv_heads"];
    model.n_heads = model.n_kv_heads * golden["group"].get<uint32_t>();
    model.head_size = golden["d"];
    model.rope_style = golden["style"] == "halves" ? KVP_ROPE_HALVES : KVP_ROPE_INTERLEAVED;
    model.rope_dimensions = golden["dimensions"];
    model.rope_magnitude = golden["magnitude"];
    const auto frequencies = golden["frequencies"].get<std::vector<float>>();
    const auto tensor = kvp::Tensor::f32(address_of(frequencies.data()), {model.rope_dimensions / 2});
    model.rope_frequencies = tensor;

    const auto q = golden["q"].get<std::vector<float>>(), k = golden["k"].get<std::vector<float>>();
    const auto v = scaled(golden["v"], golden["scale"]);
    const int64_t d = model.head_size, query_width = model.n_heads * d, key_width = model.n_kv_heads * d;
    // Scores: a dot product of d, scaled, of a query and a key that are off by 1 and 8 units, less the greatest. A share of
    // softmax is off by twice that; sums of its weights and values by a unit for each of at most 200 rows, exp by a few.
    double largest_value = 0;
    for (const float value : v) largest_value = std::max(largest_value, std::abs(double(value)));
    const double score_units = double(d + 12) * golden["largest_score"].get<double>();
    const double off_by = (2 * score_units + 210) * kUnit * largest_value + kWritten;

    auto options = options_of(golden["options"]);
    options["positions"] = "cache";
    WindowText text(golden, model, options, &cpu());
    int64_t position = 0;
    int n_turned = 0;
    for (size_t number = 0; number < golden["steps"].size(); number++) {
        SCOPED_TRACE("position " + std::to_string(position));
        const json& step = golden["steps"][number];
        const int64_t n_rows = step["rows"];
        FakeRows rows = text.core.plain_rows(n_rows);
        rows.query = part(q, position, position + n_rows, query_width);
        rows.key = part(k, position, position + n_rows, key_width);
        rows.value = part(v, position, position + n_rows, key_width);
        text.step(number, rows);
        position += n_rows;
        if (testing::Test::HasFatalFailure() || !step.contains("attended")) continue;
        for (uint32_t head = 0; head < model.n_kv_heads; head++) {
            for (size_t sink = 0; sink < step["sinks"][head].size(); sink++) {
                const auto expected = step["sinks"][head][sink].get<std::vector<double>>();
                const float* found = sink_key(text.core, head, static_cast<int64_t>(sink));
                // Rounded: the cached pair, cosine and sine, two products, their sum. A pair is at most as long as the key.
                const double bound = 8 * kUnit * length_of(expected) + kWritten;
                for (size_t i = 0; i < expected.size(); i++)
                    ASSERT_NEAR(found[i], expected[i], bound) << "sink " << sink;
            }
        }
        n_turned += text.core.segments[0][0][0].form == KVP_SEGMENT_VIRTUAL;
        for (uint32_t head = 0; head < model.n_heads; head++) {
            for (int64_t i = 0; i < d; i++) {
                ASSERT_NEAR(text.core.attended[static_cast<size_t>((n_rows - 1) * query_width + head * d + i)],
                            step["attended"][head][static_cast<size_t>(i)].get<double>(), off_by)
                    << "head " << head;
            }
        }
    }
    EXPECT_GE(n_turned, 5);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenStreaming,
                         testing::Values("streaming-llm-halves-d16", "streaming-llm-chunks-d16",
                                         "streaming-llm-part-of-a-head-d16"),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace kvplane::test
