#include "model/model.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/tiny_llama.h"

namespace kvplane {
namespace {

using test::Bytes;
using test::GgufBuilder;
using test::tiny_llama;

// The model with the bytes that it borrows.
struct Loaded {
    Bytes bytes;
    std::unique_ptr<Model> model;
};

Loaded load(const GgufBuilder& builder) {
    Loaded loaded{builder.build(), nullptr};
    loaded.model = Model::from_gguf(GgufFile::parse(loaded.bytes, "tiny.gguf"));
    return loaded;
}

void refused(const GgufBuilder& builder, const std::vector<std::string>& parts) {
    test::expect_error(ErrorKind::model, parts, [&] { load(builder); });
}

GgufBuilder with_u32(const std::string& key, uint32_t value) {
    GgufBuilder builder = tiny_llama();
    return builder.remove(key).u32(key, value);
}

TEST(Model, reads_the_shape_of_a_llama) {
    const Loaded loaded = load(tiny_llama());
    const ModelShape& shape = loaded.model->shape();
    EXPECT_EQ(shape.architecture, "llama");
    EXPECT_EQ(shape.name, "tiny");
    EXPECT_EQ(shape.layers, 2u);
    EXPECT_EQ(shape.width, 8u);
    EXPECT_EQ(shape.feed_forward_width, 12u);
    EXPECT_EQ(shape.heads, 4u);
    EXPECT_EQ(shape.kv_heads, 2u);
    EXPECT_EQ(shape.head_size, 2u);
    EXPECT_EQ(shape.vocabulary, 5u);
    EXPECT_EQ(shape.context_length, 64u);
    EXPECT_EQ(shape.norm_epsilon, 1e-5f);
    EXPECT_TRUE(shape.tied_output);
    EXPECT_TRUE(shape.rope.interleaved);
    EXPECT_EQ(shape.rope.inverse_frequencies, std::vector<float>{1.0f});
    EXPECT_TRUE(loaded.model->warnings().empty());
}

TEST(Model, finds_tensors_by_name) {
    const Loaded loaded = load(tiny_llama({.tied_output = false}));
    EXPECT_FALSE(loaded.model->shape().tied_output);
    EXPECT_EQ(loaded.model->tensor("blk.1.attn_k.weight").shape, (std::array<uint64_t, 4>{8, 4, 1, 1}));
    EXPECT_EQ(loaded.model->find_tensor("blk.2.attn_k.weight"), nullptr);
    test::expect_error(ErrorKind::model, {"tiny.gguf", "'blk.2.attn_k.weight'", "missing"},
                       [&] { loaded.model->tensor("blk.2.attn_k.weight"); });
}

TEST(Model, head_size_may_differ_from_width_over_heads) {
    GgufBuilder builder = tiny_llama({.head_size = 6});
    builder.u32("llama.attention.key_length", 6).u32("llama.attention.value_length", 6);
    EXPECT_EQ(load(builder).model->shape().head_size, 6u);
}

TEST(Model, kv_heads_default_to_heads_and_may_be_given_for_each_layer) {
    GgufBuilder builder = tiny_llama({.kv_heads = 4});
    EXPECT_EQ(load(builder.remove("llama.attention.head_count_kv")).model->shape().kv_heads, 4u);
    builder = tiny_llama();
    builder.remove("llama.attention.head_count_kv");
    GgufBuilder equal = builder, unequal = builder, short_list = builder, zero = builder;
    equal.array<uint32_t>("llama.attention.head_count_kv", test::gguf_u32, {2, 2});
    EXPECT_EQ(load(equal).model->shape().kv_heads, 2u);
    unequal.array<uint32_t>("llama.attention.head_count_kv", test::gguf_u32, {2, 1});
    refused(unequal, {"head_count_kv", "differs from layer to layer"});
    short_list.array<uint32_t>("llama.attention.head_count_kv", test::gguf_u32, {2});
    refused(short_list, {"head_count_kv", "1 values for 2 layers"});
    zero.array<uint32_t>("llama.attention.head_count_kv", test::gguf_u32, {0, 0});
    refused(zero, {"head_count_kv", "0"});
}

TEST(Model, names_the_known_architectures) {
    GgufBuilder builder = tiny_llama();
    builder.remove("general.architecture").string("general.architecture", "mamba\x1b");
    refused(builder, {"'mamba\\x1b'", "not supported", "supported: llama"});
    refused(GgufBuilder(), {"general.architecture", "missing"});
}

TEST(Model, names_every_missing_tensor_and_key) {
    for (const auto& tensor : tiny_llama().tensors) {
        GgufBuilder builder = tiny_llama();
        refused(builder.remove_tensor(tensor.name), {"tensor '" + tensor.name + "' is missing"});
    }
    for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length",
                            "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
        GgufBuilder builder = tiny_llama();
        refused(builder.remove(std::string("llama.") + key), {std::string("'llama.") + key + "'", "missing"});
    }
}

TEST(Model, checks_every_tensor_against_the_metadata) {
    for (const auto& tensor : tiny_llama().tensors) {
        GgufBuilder builder = tiny_llama();
        auto& wrong = builder.find_tensor(tensor.name);
        wrong.shape.front() += 8;
        wrong.data.resize(wrong.data.size() / tensor.shape.front() * wrong.shape.front());
        refused(builder, {"tensor '" + tensor.name + "' has the shape"});
    }
    GgufBuilder builder = tiny_llama();
    builder.find_tensor("blk.0.attn_norm.weight").shape = {8, 1, 2};
    builder.find_tensor("blk.0.attn_norm.weight").data.resize(64);
    refused(builder, {"'blk.0.attn_norm.weight'", "8 x 1 x 2", "asks for 8"});
}

TEST(Model, refuses_hyper_parameters_that_nothing_confirms) {
    const uint32_t most = 0xffffffff;
    refused(with_u32("llama.block_count", most), {"blk.2.attn_norm.weight", "missing"});
    refused(with_u32("llama.block_count", 0), {"block_count", "positive"});
    refused(with_u32("llama.embedding_length", most), {"token_embd.weight", "4294967295"});
    refused(with_u32("llama.feed_forward_length", most), {"ffn_gate.weight", "4294967295"});
    refused(with_u32("llama.attention.head_count", 0), {"head_count", "positive"});
    refused(with_u32("llama.attention.head_count", most), {"head"});
    refused(with_u32("llama.attention.head_count_kv", 0), {"head_count_kv", "positive"});
    refused(with_u32("llama.attention.head_count_kv", 3), {"4 heads", "3 KV heads"});
    refused(with_u32("llama.attention.key_length", 4), {"keys of 4", "values of 2"});
    refused(with_u32("llama.attention.key_length", 4).u32("llama.attention.value_length", 4), {"attn_q.weight", "16"});
    refused(with_u32("llama.context_length", 0), {"context_length", "positive"});
    refused(with_u32("llama.vocab_size", 6), {"vocab_size", "6", "5 rows"});
    refused(with_u32("llama.expert_count", 8), {"8 experts"});
    GgufBuilder builder = tiny_llama();
    builder.remove("llama.block_count").value("llama.block_count", test::gguf_u64, uint64_t{1} << 63);
    refused(builder, {"block_count", "9223372036854775808"});
    builder = tiny_llama();
    builder.remove("llama.block_count").string("llama.block_count", "2");
    refused(builder, {"block_count", "string", "expected an integer"});
    builder = tiny_llama();
    builder.remove("llama.attention.layer_norm_rms_epsilon").f32("llama.attention.layer_norm_rms_epsilon", -1.0f);
    refused(builder, {"epsilon", "positive"});
    builder = tiny_llama();
    refused(builder.string_array("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f"}), {"6 tokens", "5 rows"});
}

TEST(Model, refuses_types_that_no_kernel_reads) {
    GgufBuilder builder = tiny_llama({.width = 256});
    auto& matrix = builder.find_tensor("blk.0.ffn_up.weight");
    matrix.type = 11;
    matrix.data.resize(110 * 12);
    builder.u32("llama.attention.key_length", 2).u32("llama.attention.value_length", 2);
    refused(builder, {"'blk.0.ffn_up.weight'", "q3_k", "supported: f32"});
    builder = tiny_llama();
    auto& norm = builder.find_tensor("output_norm.weight");
    norm.type = 1;
    norm.data.resize(16);
    refused(builder, {"'output_norm.weight'", "f16", "supported: f32"});
}

TEST(Model, warns_about_tensors_that_nobody_reads) {
    GgufBuilder builder = tiny_llama();
    builder.zeros("blk.0.attn_q_norm.weight", {2}).zeros("blk.0.attn_q.bias", {8});
    const Loaded loaded = load(builder);
    ASSERT_EQ(loaded.model->warnings().size(), 1u);
    EXPECT_NE(loaded.model->warnings()[0].find("1 tensors"), std::string::npos);
    EXPECT_NE(loaded.model->warnings()[0].find("blk.0.attn_q_norm.weight"), std::string::npos);
}

TEST(Model, fingerprint_tells_models_apart) {
    const uint64_t original = load(tiny_llama()).model->fingerprint();
    EXPECT_EQ(load(tiny_llama()).model->fingerprint(), original);
    EXPECT_EQ(load(tiny_llama().string("general.author", "someone")).model->fingerprint(), original);

    GgufBuilder weights = tiny_llama();
    weights.find_tensor("blk.1.ffn_up.weight").data[3] = std::byte{1};
    EXPECT_NE(load(weights).model->fingerprint(), original);
    GgufBuilder rope = tiny_llama({.head_size = 4});
    rope.u32("llama.attention.key_length", 4).u32("llama.attention.value_length", 4);
    const uint64_t before = load(rope).model->fingerprint();
    rope.remove("llama.rope.freq_base").f32("llama.rope.freq_base", 500000.0f);
    EXPECT_NE(load(rope).model->fingerprint(), before);
    EXPECT_NE(load(tiny_llama({.layers = 1})).model->fingerprint(), original);
}

}  // namespace
}  // namespace kvplane
