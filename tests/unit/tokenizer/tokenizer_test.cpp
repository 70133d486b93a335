#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "support/small_vocabulary.h"

namespace kvplane {
namespace {

using test::Bytes;
using test::GgufBuilder;
using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> make(const GgufBuilder& builder) {
    const Bytes bytes = builder.build();
    return Tokenizer::from_gguf(GgufFile::parse(bytes, "tokens.gguf"));
}

GgufBuilder small(const std::string& rule = "gpt-2") {
    return test::small_vocabulary(test::read_golden("small_bpe.json"), rule);
}

void refused(const GgufBuilder& builder, const std::vector<std::string>& parts) {
    test::expect_error(ErrorKind::model, parts, [&] { make(builder); });
}

// Golden values: tests/reference/make_tokenizer_golden.py, from the Python package tokenizers.
TEST(Tokenizer, gives_the_ids_of_the_reference) {
    const auto golden = test::read_golden("small_bpe.json");
    for (const char* rule : {"gpt-2", "smollm", "llama-bpe"}) {
        const auto tokenizer = make(test::small_vocabulary(golden, rule));
        size_t cases = 0;
        for (const auto& expected : golden["cases"]) {
            if (expected["rule"] != rule) continue;
            const std::string text = expected["text"];
            const Ids ids = tokenizer->encode(text, false);
            EXPECT_EQ(ids, expected["ids"].get<Ids>()) << rule << " of " << expected["text"].dump();
            EXPECT_EQ(tokenizer->decode(ids), text);
            ++cases;
        }
        EXPECT_GT(cases, 30u);
    }
}

TEST(Tokenizer, keeps_every_byte_string) {
    std::string text;
    for (int i = 0; i < 4096; ++i) text += static_cast<char>(i * 7919 >> 3);
    for (const char* rule : {"gpt-2", "smollm", "llama-bpe"}) {
        const auto tokenizer = make(small(rule));
        EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, true)), text);
    }
}

TEST(Tokenizer, parses_special_tokens_only_where_allowed) {
    const auto tokenizer = make(small());
    const std::string text = "a<|end|>b<|begin|><|end|>";
    const Ids parsed = tokenizer->encode(text, true);
    ASSERT_EQ(parsed.size(), 5u);
    EXPECT_EQ(parsed, (Ids{parsed[0], 1, parsed[2], 0, 1}));
    EXPECT_EQ(tokenizer->decode(parsed), "ab");
    EXPECT_EQ(tokenizer->decode(parsed, true), text);
    const Ids literal = tokenizer->encode(text, false);
    EXPECT_EQ(std::count_if(literal.begin(), literal.end(), [&](int32_t id) { return tokenizer->is_control(id); }), 0);
    EXPECT_EQ(tokenizer->decode(literal), text);
}

TEST(Tokenizer, takes_the_longest_special_token) {
    const auto golden = test::read_golden("small_bpe.json");
    auto tokens = golden["tokens"].get<std::vector<std::string>>();
    std::vector<int32_t> kinds(tokens.size(), 1);
    tokens.insert(tokens.end(), {"<x", "<x>y", "<x>"});
    kinds.insert(kinds.end(), {3, 4, 3});
    GgufBuilder builder = small();
    builder.remove("tokenizer.ggml.tokens").string_array("tokenizer.ggml.tokens", tokens);
    builder.remove("tokenizer.ggml.token_type").array("tokenizer.ggml.token_type", test::gguf_i32, kinds);
    const int32_t first = static_cast<int32_t>(tokens.size()) - 3;
    EXPECT_EQ(make(builder)->encode("<x>y<x><x<x", true), (Ids{first + 1, first + 2, first, first}));
}

TEST(Tokenizer, joins_segments_before_splitting) {
    const auto tokenizer = make(small());
    const std::vector<TextSegment> segments = {{"<|begin|>it", false}, {"'s <|end|> th", true}, {"e<|end|>", false}};
    Ids expected = {0};
    const Ids middle = tokenizer->encode("it's <|end|> the", false);
    expected.insert(expected.end(), middle.begin(), middle.end());
    expected.push_back(1);
    EXPECT_EQ(tokenizer->encode(segments), expected);
}

TEST(Tokenizer, starts_prompts_with_bos_once_if_the_file_says_so) {
    Ids ids = {5};
    make(small("gpt-2"))->begin_prompt(ids);
    EXPECT_EQ(ids, (Ids{5}));
    make(small("llama-bpe"))->begin_prompt(ids);
    EXPECT_EQ(ids, (Ids{0, 5}));
    make(small("gpt-2").boolean("tokenizer.ggml.add_bos_token", true))->begin_prompt(ids);
    EXPECT_EQ(ids, (Ids{0, 5}));
    EXPECT_FALSE(make(small("llama-bpe").boolean("tokenizer.ggml.add_bos_token", false))->adds_bos());
}

TEST(Tokenizer, knows_what_ends_an_answer) {
    const auto tokenizer = make(small().u32("tokenizer.ggml.eot_token_id", 7));
    EXPECT_EQ(tokenizer->bos(), 0);
    EXPECT_EQ(tokenizer->eos(), 1);
    EXPECT_TRUE(tokenizer->is_end_of_generation(1));
    EXPECT_TRUE(tokenizer->is_end_of_generation(7));
    EXPECT_FALSE(tokenizer->is_end_of_generation(0));
    EXPECT_FALSE(tokenizer->is_end_of_generation(-1));
}

TEST(Tokenizer, refuses_ids_outside_the_vocabulary) {
    const auto tokenizer = make(small());
    const int32_t size = tokenizer->vocabulary_size();
    for (const int32_t id : {-1, size, INT32_MAX, INT32_MIN}) {
        test::expect_error(ErrorKind::usage, {std::to_string(id), "outside the vocabulary"},
                           [&] { tokenizer->decode(Ids{id}); });
    }
    EXPECT_EQ(tokenizer->piece(1), "<|end|>");
}

// As the Python package tokenizers does without an unknown token: what stood beside the byte may merge.
TEST(Tokenizer, drops_bytes_that_have_no_token) {
    GgufBuilder builder;
    builder.string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", "gpt-2")
        .string_array("tokenizer.ggml.tokens", {"a", "b", "ab"})
        .string_array("tokenizer.ggml.merges", {"a b"});
    EXPECT_EQ(make(builder)->encode("axb!a", false), (Ids{2, 0}));
    EXPECT_EQ(make(builder)->encode("\x01", false), Ids{});
}

TEST(Tokenizer, merges_a_megabyte_without_a_break) {
    GgufBuilder builder;
    builder.string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", "gpt-2")
        .string_array("tokenizer.ggml.tokens", {"a", "aa", "aaaa"})
        .string_array("tokenizer.ggml.merges", {"a a", "aa aa"});
    const Ids ids = make(builder)->encode(std::string((1 << 20) + 3, 'a'), false);
    ASSERT_EQ(ids.size(), (1u << 18) + 2);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 1 << 18);
    EXPECT_EQ((Ids{ids.end() - 2, ids.end()}), (Ids{1, 0}));
}

TEST(Tokenizer, warns_about_a_rule_it_does_not_know) {
    const auto unknown = make(small("mystery"));
    ASSERT_EQ(unknown->warnings().size(), 1u);
    EXPECT_NE(unknown->warnings()[0].find("'mystery'"), std::string::npos);
    EXPECT_EQ(unknown->split_rule(), SplitRule::gpt2);
    EXPECT_EQ(make(small().remove("tokenizer.ggml.pre"))->warnings().size(), 1u);
    EXPECT_TRUE(make(small())->warnings().empty());
}

TEST(Tokenizer, refuses_tables_that_contradict_each_other) {
    GgufBuilder builder = small();
    refused(builder.remove("tokenizer.ggml.model").string("tokenizer.ggml.model", "llama"), {"'llama'", "gpt2"});
    builder = small();
    refused(builder.remove("tokenizer.ggml.model"), {"tokenizer.ggml.model", "missing"});
    builder = small();
    refused(builder.remove("tokenizer.ggml.tokens"), {"tokenizer.ggml.tokens", "missing"});
    builder = small();
    refused(builder.remove("tokenizer.ggml.tokens").string_array("tokenizer.ggml.tokens", {}), {"0 tokens"});
    builder = small();
    refused(builder.remove("tokenizer.ggml.merges"), {"tokenizer.ggml.merges", "missing"});
    builder = small();
    builder.remove("tokenizer.ggml.token_type");
    GgufBuilder types = builder;
    refused(types.array<int32_t>("tokenizer.ggml.token_type", test::gguf_i32, {1, 1}),
            {"token_type", "2 values for 421"});
    types = builder;
    refused(types.array<float>("tokenizer.ggml.token_type", test::gguf_f32, {1.0f}), {"token_type", "array of f32"});
    for (const int32_t kind : {0, 7, -1}) {
        types = builder;
        refused(types.array<int32_t>("tokenizer.ggml.token_type", test::gguf_i32, std::vector<int32_t>(421, kind)),
                {"token_type", std::to_string(kind)});
    }
    refused(small().array<float>("tokenizer.ggml.scores", test::gguf_f32, {0.0f}), {"scores", "1 values for 421"});
    refused(small().array<uint8_t>("tokenizer.ggml.scores", test::gguf_u8, std::vector<uint8_t>(421)), {"array of u8"});
    builder = small();
    refused(builder.remove("tokenizer.ggml.eos_token_id").u32("tokenizer.ggml.eos_token_id", 421),
            {"eos_token_id", "421", "outside"});
    builder = small("llama-bpe");
    refused(builder.remove("tokenizer.ggml.bos_token_id"), {"BOS", "bos_token_id"});
    for (const char* merge : {"", "ab", " ", " a"}) {
        builder = small();
        refused(builder.remove("tokenizer.ggml.merges").string_array("tokenizer.ggml.merges", {merge}),
                {"merges", "at 0"});
    }
}

TEST(Tokenizer, leaves_out_merges_of_pieces_it_does_not_have) {
    GgufBuilder builder = small();
    builder.remove("tokenizer.ggml.merges").string_array("tokenizer.ggml.merges", {"zz zz", "a b c"});
    const auto tokenizer = make(builder);
    ASSERT_EQ(tokenizer->warnings().size(), 1u);
    EXPECT_NE(tokenizer->warnings()[0].find("2 of 2 merges"), std::string::npos);
}

}  // namespace
}  // namespace kvplane
