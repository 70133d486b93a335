#include "tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "support/golden.h"
#include "tokenizer/unicode.h"

namespace kvplane {
namespace {

std::vector<std::string> pieces_of(SplitRule rule, std::string_view text) {
    std::vector<std::string_view> pieces;
    split(rule, text, pieces);
    return {pieces.begin(), pieces.end()};
}

// Golden values: tests/reference/make_tokenizer_golden.py, the published expressions run by the Python package regex.
TEST(PreTokenizer, splits_as_the_published_expressions_do) {
    for (const auto& golden : test::read_golden("splits.json")) {
        const std::string text = golden["text"];
        for (const char* name : {"gpt-2", "llama-bpe", "smollm"}) {
            EXPECT_EQ(pieces_of(*split_rule(name), text), golden[name].get<std::vector<std::string>>())
                << name << " of " << golden["text"].dump();
        }
    }
}

TEST(PreTokenizer, takes_bytes_that_are_no_text_as_symbols) {
    const std::string_view text = "a\xff\xfe b\xe4\xbd";
    for (const SplitRule rule : {SplitRule::gpt2, SplitRule::llama3, SplitRule::smollm}) {
        EXPECT_EQ(pieces_of(rule, text), (std::vector<std::string>{"a", "\xff\xfe", " b", "\xe4\xbd"}));
    }
}

TEST(PreTokenizer, covers_the_text_without_gap_or_overlap) {
    std::string text;
    for (int i = 0; i < 4096; ++i) text += static_cast<char>(i * 7919 >> 3);
    for (const SplitRule rule : {SplitRule::gpt2, SplitRule::llama3, SplitRule::smollm}) {
        std::string joined;
        for (const std::string& piece : pieces_of(rule, text)) {
            EXPECT_FALSE(piece.empty());
            joined += piece;
        }
        EXPECT_EQ(joined, text);
    }
}

TEST(PreTokenizer, knows_the_names_that_files_use) {
    EXPECT_EQ(split_rule("gpt-2"), SplitRule::gpt2);
    EXPECT_EQ(split_rule("default"), SplitRule::gpt2);
    EXPECT_EQ(split_rule("llama-bpe"), SplitRule::llama3);
    EXPECT_EQ(split_rule("llama-v3"), SplitRule::llama3);
    EXPECT_EQ(split_rule("smollm"), SplitRule::smollm);
    EXPECT_EQ(split_rule("qwen2"), std::nullopt);
}

// Counts of Unicode 16.0, from its DerivedGeneralCategory.txt: L 141,028 and N 1,911 code points; White_Space 25.
TEST(Unicode, has_as_many_letters_numbers_and_spaces_as_the_standard) {
    size_t letters = 0, numbers = 0, spaces = 0;
    for (uint32_t code = 0; code <= 0x10ffff; ++code) {
        const CharacterClass kind = character_class(code);
        letters += kind == CharacterClass::letter;
        numbers += kind == CharacterClass::number;
        spaces += kind == CharacterClass::space;
    }
    EXPECT_EQ(letters, 141028u);
    EXPECT_EQ(numbers, 1911u);
    EXPECT_EQ(spaces, 25u);
}

}  // namespace
}  // namespace kvplane
