#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/gguf_builder.h"
#include "support/golden.h"

namespace kvplane {
namespace {

using test::Bytes;
using test::GgufBuilder;

RopeSpec read(const GgufBuilder& builder, uint32_t head_size = 64) {
    const Bytes bytes = builder.build();
    return read_rope(GgufFile::parse(bytes, "test.gguf"), "llama", head_size, 65536, true);
}

void expect_close(const std::vector<float>& found, const std::vector<float>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    // The golden values were computed in f32.
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1.0f, 1e-5f) << i;
}

// Golden values: tests/reference/make_model_golden.py, from the Python package transformers.
TEST(Rope, scalings_agree_with_transformers) {
    for (const auto& golden : test::read_golden("rope.json")) {
        const std::string kind = golden["rope_type"];
        SCOPED_TRACE(kind);
        GgufBuilder builder;
        builder.f32("llama.rope.freq_base", golden["base"])
            .string("llama.rope.scaling.type", kind)
            .f32("llama.rope.scaling.factor", golden["factor"])
            .u32("llama.rope.scaling.original_context_length", golden.value("original_max_position_embeddings", 1u));
        if (kind == "llama3") {
            builder.f32("llama.rope.scaling.low_freq_factor", golden["low_freq_factor"])
                .f32("llama.rope.scaling.high_freq_factor", golden["high_freq_factor"]);
        }
        const RopeSpec rope = read(builder);
        expect_close(rope.inverse_frequencies, golden["inverse_frequencies"]);
        EXPECT_NEAR(rope.magnitude, golden["magnitude"].get<float>(), 1e-6f);
    }
}

TEST(Rope, without_scaling_frequencies_are_powers_of_the_base) {
    const RopeSpec rope = read(GgufBuilder().f32("llama.rope.freq_base", 10000.0f), 8);
    expect_close(rope.inverse_frequencies, {1.0f, 0.1f, 0.01f, 0.001f});
    EXPECT_EQ(rope.magnitude, 1.0f);
    EXPECT_EQ(rope.dimensions, 8u);
    EXPECT_TRUE(rope.interleaved);
}

TEST(Rope, factors_in_the_file_divide_the_frequencies) {
    Bytes divisors;
    for (const float divisor : {1.0f, 2.0f, 4.0f, 8.0f}) test::append(divisors, divisor);
    GgufBuilder builder;
    builder.tensor("rope_freqs.weight", {4}, 0, divisors);
    expect_close(read(builder, 8).inverse_frequencies, {1.0f, 0.1f / 2, 0.01f / 4, 0.001f / 8});
}

TEST(Rope, turns_only_the_leading_dimensions_if_the_file_says_so) {
    const RopeSpec rope = read(GgufBuilder().u32("llama.rope.dimension_count", 4), 8);
    EXPECT_EQ(rope.dimensions, 4u);
    expect_close(rope.inverse_frequencies, {1.0f, 0.01f});
}

TEST(Rope, knows_the_old_name_of_linear_scaling) {
    expect_close(read(GgufBuilder().f32("llama.rope.scale_linear", 2.0f), 4).inverse_frequencies, {0.5f, 0.005f});
}

// As llama.cpp does: the file's factor comes on top of YaRN's own, 1 + 0.1 ln(16).
TEST(Rope, attention_factor_multiplies_the_magnitude_of_yarn) {
    GgufBuilder builder;
    builder.string("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 16.0f);
    builder.f32("llama.rope.scaling.attn_factor", 2.0f);
    EXPECT_NEAR(read(builder).magnitude, 2 * 1.2772589f, 1e-6f);
}

TEST(Rope, refuses_what_it_cannot_compute) {
    const auto refused = [](GgufBuilder& builder, const std::vector<std::string>& parts) {
        test::expect_error(ErrorKind::model, parts, [&] { read(builder, 8); });
    };
    refused(GgufBuilder().string("llama.rope.scaling.type", "dynamic"), {"dynamic", "none, linear, llama3 and yarn"});
    refused(GgufBuilder().u32("llama.rope.dimension_count", 10), {"dimension_count", "10", "head size 8"});
    refused(GgufBuilder().u32("llama.rope.dimension_count", 3), {"dimension_count", "3", "even"});
    refused(GgufBuilder().u32("llama.rope.dimension_count", 0), {"dimension_count"});
    refused(GgufBuilder().f32("llama.rope.freq_base", NAN), {"freq_base"});
    refused(GgufBuilder().f32("llama.rope.freq_base", 0.5f), {"freq_base"});
    refused(GgufBuilder().f32("llama.rope.scaling.factor", -2.0f), {"scaling.factor", "positive"});
    refused(GgufBuilder().zeros("rope_freqs.weight", {3}), {"rope_freqs.weight", "f32 of 4"});
    refused(GgufBuilder().zeros("rope_freqs.weight", {4}), {"rope_freqs.weight", "positive"});
}

}  // namespace
}  // namespace kvplane
