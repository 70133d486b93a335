// What infinigen selects, with the real ops of the cpu device, against lists that a NumPy program made from the paper's
// and the measured rules (tests/reference/infinigen_selections.py). Skipped only where the device is not built.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "aux_format.h"
#include "rows_read.h"
#include "support/golden.h"

namespace kvplane::test {

namespace {

using nlohmann::json;

FakeHost::Options options_of(const json& golden) {
    const json& given = golden["options"];
    const auto number = [&](const char* key) { return given[key].dump(); };
    const std::string columns = given["columns"] == "query" ? "q" : given["columns"].get<std::string>();
    const std::map<int, std::string> key_types = {{0, "f32"}, {4, "i4"}, {8, "i8"}, {16, "f16"}};
    FakeHost::Options options = {
        {"source", "own_query"}, {"columns", columns},  {"key_type", key_types.at(given["key_bits"])},
        {"min_share", "0"},      {"dense_layers", "0"}, {"centroids", "off"}};
    for (const char* key : {"ratio", "alpha", "min_tokens", "cap", "sinks", "recent"}) options[key] = number(key);
    for (const char* key : {"max_tokens", "min_share", "fixed_tokens", "share"}) {
        if (given.contains(key)) options[key] = number(key);
    }
    if (given["page_share"] < 1) {
        options["centroids"] = "on";
        options["page_share"] = number("page_share");
        options["min_pages"] = number("min_pages");
    }
    if (given.contains("unit")) options["unit"] = "group";
    if (given.contains("group_of")) options["group"] = given["group_of"];
    if (given.contains("per_head")) options["counts"] = "per_head";
    if (given.contains("shared")) options["counts"] = "shared";
    if (given.contains("strict")) options["strict"] = given["strict"] ? "on" : "off";
    if (given["rule"] == "fixed") options["fixed_share"] = number("fixed");
    return options;
}

class GoldenSelection : public testing::TestWithParam<const char*> {};

}  // namespace

TEST_P(GoldenSelection, reads_the_rows_that_the_reference_reads) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    const json golden = read_golden(std::string(GetParam()) + ".json");
    auto model = small_model();
    model.n_layers = 1;
    model.n_kv_heads = golden["kv_heads"];
    model.n_heads = model.n_kv_heads * golden["group"].get<uint32_t>();
    model.head_size = golden["d"];
    const double scale = golden["scale"];
    const auto q = scaled(golden["q"], scale), s = scaled(golden["s"], scale), k = scaled(golden["k"], scale);
    const int64_t prompt = golden["prompt"], tokens = golden["tokens"];
    const int64_t query_width = int64_t{model.n_heads} * model.head_size;
    const int64_t key_width = int64_t{model.n_kv_heads} * model.head_size;

    FakeKvCore core(plugin_path("infinigen"), model, options_of(golden), &cpu());
    ASSERT_EQ(core.created, KVP_OK) << core.error();
    if (!golden["skew"].empty()) {
        const auto bytes =
            infinigen::encode({1, model.n_kv_heads, model.head_size, golden["skew"].get<std::vector<float>>()});
        ASSERT_EQ(core.table->aux_load(core.instance, bytes.data(), bytes.size()), KVP_OK) << core.error();
    }
    core.open();
    // The prompt in two chunks, as the scheduler may cut it.
    const int64_t border = std::min<int64_t>(17, prompt - 1);
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, border}, {border, prompt}}) {
        if (begin == end) continue;
        FakeRows rows = core.plain_rows(end - begin);
        rows.query = part(q, begin, end, query_width);
        rows.key = part(k, begin, end, key_width);
        core.prefill(0, end - begin, rows, end == prompt);
    }
    size_t shown = 0;
    for (int64_t position = prompt; position < tokens; position++) {
        FakeRows rows = core.plain_rows(1);
        rows.query = part(s, position - prompt, position - prompt + 1, query_width);
        rows.key = part(k, position, position + 1, key_width);
        core.decode(0, rows);
        const auto& segments = core.segments[0][0];
        if (segments.size() > 1) {
            const json& counts = golden["counts"][static_cast<size_t>(position - prompt)];
            const int64_t forced =
                golden["options"]["sinks"].get<int64_t>() + golden["options"]["recent"].get<int64_t>();
            for (uint32_t head = 0; head < model.n_kv_heads; head++) {
                const int64_t wanted = counts.is_array() ? counts[head] : counts;
                const auto read = static_cast<int64_t>(rows_read(segments, head, position).size());
                const int64_t expected =
                    golden.contains("sizes")
                        ? golden["sizes"][static_cast<size_t>(position - prompt)][head].get<int64_t>()
                        : std::min(forced + wanted, position);
                EXPECT_EQ(read, expected) << "position " << position;
            }
        }
        if (shown == golden["rows"].size() || golden["rows"][shown]["position"] != position) continue;
        for (uint32_t head = 0; head < model.n_kv_heads; head++) {
            EXPECT_EQ(rows_read(segments, head, position),
                      golden["rows"][shown]["chosen"][head].get<std::vector<int>>())
                << "position " << position << ", KV head " << head;
        }
        shown++;
    }
    EXPECT_EQ(shown, golden["rows"].size());
}

INSTANTIATE_TEST_SUITE_P(
    Infinigen, GoldenSelection,
    testing::Values("paper-mha-d16", "paper-skew-gqa2-d16", "query-gqa3-d16", "union-skew-gqa2-d16", "preset-gqa3-d16",
                    "preset-skew-gqa3-d64", "int4-skew-gqa2-d16", "fixed-mha-d16", "few-keys-gqa2-d64",
                    "everything-gqa2-d16", "pages-gqa2-d16", "units-gqa2-d16", "units-cut-mha-d16",
                    "units-pages-gqa2-d16", "most-gqa2-d16", "most-units-gqa2-d16", "per-head-gqa2-d16",
                    "mean-gqa3-d16", "mass-gqa3-d16", "shared-gqa2-d16", "shared-pages-gqa2-d16", "shared-cap-mha-d16",
                    "units-shared-mha-d16", "above-threshold-mha-d16", "at-threshold-mha-d16", "min-share-gqa2-d16",
                    "tokens-gqa2-d16", "tokens-short-mha-d16", "share-gqa2-d16", "share-forced-mha-d16",
                    "fixed-most-gqa2-d16", "no-most-mha-d16", "f16-skew-gqa2-d64", "lean-pages-gqa3-d16",
                    "one-row-prompt-gqa2-d16", "units-most-below-one-mha-d16", "units-per-head-mha-d16",
                    "units-tokens-mha-d16", "units-share-gqa2-d16", "units-fixed-most-mha-d16"),
    [](const auto& info) { return test_name(info.param); });

namespace {

// Text of random keys and queries, two layers; the query of layer 1 is guessed from `input`.
struct RandomText {
    explicit RandomText(const kvp_kv_model& model) : random(11) {
        for (float& value : normal(size_t{model.width})) norm_values.push_back(1 + 0.3f * value);
        query_values = normal(size_t{model.n_heads} * model.head_size * model.width);
        bias_values = normal(size_t{model.n_heads} * model.head_size);
        for (uint32_t i = 0; i < model.head_size / 2; i++) {
            frequencies.push_back(std::pow(100.0f, -2.0f * float(i) / float(model.head_size)));
        }
    }
    std::vector<float> normal(size_t n) {
        std::normal_distribution<float> distribution;
        std::vector<float> values(n);
        for (float& value : values) value = distribution(random);
        return values;
    }
    FakeRows rows(const kvp_kv_model& model, int64_t n, int64_t position) {
        const auto size = [n](uint32_t width) { return static_cast<size_t>(n) * width; };
        FakeRows made{normal(size(model.width)), normal(size(model.n_heads * model.head_size)),
                      normal(size(model.n_kv_heads * model.head_size)),
                      normal(size(model.n_kv_heads * model.head_size)), std::vector<int32_t>(size(1))};
        std::iota(made.positions.begin(), made.positions.end(), static_cast<int32_t>(position));
        return made;
    }
    // RoPE(W_Q norm(x) + b), pairs (i, i + d/2); in double.
    std::vector<float> query_of(const kvp_kv_model& model, const std::vector<float>& x, int position, bool norm) const {
        double squares = 0;
        for (float value : x) squares += double(value) * value;
        const double inverse = 1 / std::sqrt(squares / model.width + double(model.norm_epsilon));
        const size_t d = model.head_size;
        std::vector<double> q(model.n_heads * d);
        for (size_t row = 0; row < q.size(); row++) {
            q[row] = bias_values[row];
            for (size_t i = 0; i < model.width; i++) {
                const double input = norm ? x[i] * inverse * norm_values[i] : x[i];
                q[row] += query_values[row * model.width + i] * input;
            }
        }
        std::vector<float> rotated(q.size());
        for (size_t head = 0; head < model.n_heads; head++) {
            for (size_t i = 0; i < d / 2; i++) {
                const double angle = position * double(frequencies[i]);
                const double a = q[head * d + i], b = q[head * d + i + d / 2];
                rotated[head * d + i] = float(a * std::cos(angle) - b * std::sin(angle));
                rotated[head * d + i + d / 2] = float(a * std::sin(angle) + b * std::cos(angle));
            }
        }
        return rotated;
    }

    std::mt19937 random;
    std::vector<float> norm_values, query_values, bias_values, frequencies;
};

class GuessedQuery : public testing::TestWithParam<const char*> {};

}  // namespace

// The guess from the layer before selects what the own query selects when it is that very query.
TEST_P(GuessedQuery, selects_as_the_query_that_it_stands_for) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    auto model = small_model();
    model.n_layers = 2;
    RandomText text(model);
    const auto frequencies = kvp::Tensor::f32(address_of(text.frequencies.data()), {model.head_size / 2});
    model.rope_style = KVP_ROPE_HALVES;
    model.rope_dimensions = model.head_size;
    model.rope_magnitude = 1;
    model.rope_frequencies = frequencies;
    const int64_t query_width = int64_t{model.n_heads} * model.head_size;
    const auto norm = kvp::Tensor::f32(address_of(text.norm_values.data()), {model.width});
    const auto weight = kvp::Tensor::f32(address_of(text.query_values.data()), {query_width, model.width});
    const auto bias = kvp::Tensor::f32(address_of(text.bias_values.data()), {query_width});
    auto weights = kvp::make<kvp_kv_weights>();
    weights.attention_norm = norm;
    weights.query = weights.key = weight;
    weights.query_bias = bias;

    FakeHost::Options options = {{"dense_layers", "1"},   {"key_type", "f32"}, {"ratio", "1"},
                                 {"fixed_share", "0.15"}, {"min_tokens", "1"}, {"recent", "8"},
                                 {"centroids", "off"}};
    options["source"] = GetParam();
    FakeKvCore guessing(plugin_path("infinigen"), model, options, &cpu());
    ASSERT_EQ(guessing.created, KVP_OK) << guessing.error();
    for (uint32_t layer = 0; layer < 2; layer++) {
        ASSERT_EQ(guessing.table->weights_ready(guessing.instance, layer, &weights), KVP_OK) << guessing.error();
    }
    const FakeRows prompt = text.rows(model, 90, 0), other_prompt = text.rows(model, 70, 0);
    FakeRows token = text.rows(model, 2, 90);
    token.positions = {90, 70};
    guessing.open();
    guessing.open();
    guessing.prefill(0, 90, prompt);
    guessing.prefill(1, 70, other_prompt);
    guessing.step({{0, KVP_PHASE_DECODE, 1}, {1, KVP_PHASE_DECODE, 1}}, token);
    std::vector<std::vector<int>> guessed;
    for (size_t sequence = 0; sequence < 2; sequence++) {
        for (uint32_t head = 0; head < model.n_kv_heads; head++) {
            guessed.push_back(rows_read(guessing.segments[1][sequence], head, sequence == 0 ? 90 : 70));
        }
    }

    const bool normed = std::string(GetParam()) == "attn_input";
    for (size_t sequence = 0; sequence < 2; sequence++) {
        options["source"] = "own_query";
        FakeKvCore knowing(plugin_path("infinigen"), model, options, &cpu());
        knowing.open();
        const int64_t n_past = sequence == 0 ? 90 : 70;
        knowing.prefill(0, n_past, sequence == 0 ? prompt : other_prompt);
        FakeRows own = text.rows(model, 1, n_past);
        own.query = text.query_of(model, part(token.input, int64_t(sequence), int64_t(sequence) + 1, model.width),
                                  int(n_past), !normed);
        knowing.decode(0, own);
        for (uint32_t head = 0; head < model.n_kv_heads; head++) {
            const auto expected = rows_read(knowing.segments[1][0], head, n_past);
            EXPECT_EQ(guessed[sequence * model.n_kv_heads + head], expected) << "sequence " << sequence;
            EXPECT_EQ(expected.size(), sequence == 0 ? 25u : 22u);  // 12 forced, 13 of 90, 10 of 70
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Infinigen, GuessedQuery, testing::Values("attn_input", "residual", "residual_mid"),
                         [](const auto& info) { return info.param; });

namespace {

std::vector<float> page_mean(FakeKvCore& core, uint32_t head, int64_t begin, int64_t end) {
    std::vector<double> sum(core.row_values());
    for (int64_t token = begin; token < end; token++) {
        const float* row = core.row(core.sequences[0].layers[0], head, token);
        for (size_t i = 0; i < sum.size(); i++) sum[i] += row[i];
    }
    std::vector<float> mean;
    for (double value : sum) mean.push_back(float(value / double(end - begin)));
    return mean;
}

void expect_means(FakeKvCore& core) {
    ASSERT_EQ(core.segments[0][0].size(), 4u);
    const kvp_segment& segment = core.segments[0][0][3];
    const int64_t n_rows = core.sequences[0].abi.n_cached;
    for (uint32_t head = 0; head < core.model.n_kv_heads; head++) {
        const auto* means = reinterpret_cast<const float*>(segment.virtual_rows);
        const auto* bias = reinterpret_cast<const float*>(segment.virtual_bias);
        std::vector<int> left(segment.virtual_count);
        for (int64_t row = 0; row < n_rows - 1; row++) left[size_t(row / 64)]++;
        for (int row : rows_read(core.segments[0][0], head, n_rows - 1)) left[size_t(row / 64)]--;
        for (uint32_t page = 0; page < segment.virtual_count; page++) {
            const size_t at = head * segment.virtual_stride + page;
            const auto expected = page_mean(core, head, page * 64, std::min<int64_t>(page * 64 + 64, n_rows));
            for (size_t i = 0; i < expected.size(); i++) {
                ASSERT_NEAR(means[at * expected.size() + i], expected[i], 1e-5) << "page " << page << " value " << i;
            }
            if (left[page] == 0) {
                EXPECT_EQ(bias[at], -std::numeric_limits<float>::infinity());
            } else {
                EXPECT_NEAR(bias[at], std::log(double(left[page])), 1e-5) << "page " << page;
            }
        }
    }
}

}  // namespace

TEST(InfinigenCentroids, are_the_means_of_the_pages_and_weigh_what_is_left_out) {
    if (cpu().table == nullptr) GTEST_SKIP() << "the cpu device is not built";
    auto model = small_model();
    model.n_layers = 1;
    RandomText text(model);
    FakeKvCore core(plugin_path("infinigen"), model,
                    {{"source", "own_query"}, {"dense_layers", "0"}, {"min_tokens", "8"}, {"pool_tokens", "512"}},
                    &cpu());
    core.open();
    core.prefill(0, 70, text.rows(model, 70, 0), false);
    core.prefill(0, 57, text.rows(model, 57, 70));
    for (int64_t position = 127; position < 131; position++) {
        core.decode(0, text.rows(model, 1, position));
        expect_means(core);
    }
    // A rewind into a page: its mean must forget the rows that are gone. Not into the prompt, whose sums would be wrong.
    EXPECT_EQ(core.table->seq_rewind(core.instance, core.sequences[0].abi.state, 110), KVP_UNSUPPORTED);
    ASSERT_EQ(core.table->seq_rewind(core.instance, core.sequences[0].abi.state, 129), KVP_OK);
    core.sequences[0].abi.n_cached = 129;
    for (int64_t position = 129; position < 132; position++) {
        core.decode(0, text.rows(model, 1, position));
        expect_means(core);
    }
    // A page leaves: the means follow the rows that took its victims' places.
    for (int64_t position = 132; position < 330; position++) core.decode(0, text.rows(model, 1, position));
    core.replace_page(0, 0, 192);
    core.decode(0, text.rows(model, 1, 330));
    expect_means(core);
}

}  // namespace kvplane::test
