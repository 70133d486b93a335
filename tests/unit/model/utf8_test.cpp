#include "model/utf8.h"

#include <gtest/gtest.h>

namespace kvplane {
namespace {

TEST(Utf8, reads_characters_of_each_length) {
    const std::string_view text = "a\u00e9\u4f60\U0001f642";
    size_t at = 0;
    for (const uint32_t expected : {0x61u, 0xe9u, 0x4f60u, 0x1f642u}) {
        const Utf8Character character = decode_utf8(text, at);
        EXPECT_TRUE(character.valid);
        EXPECT_EQ(character.code_point, expected);
        at += character.length;
    }
    EXPECT_EQ(at, text.size());
}

TEST(Utf8, refuses_overlong_forms_surrogates_and_what_lies_above_unicode) {
    for (const char* text : {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                             "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80", "\xff"}) {
        EXPECT_FALSE(is_utf8(text));
        EXPECT_EQ(decode_utf8(text, 0).length, 1u);
    }
    EXPECT_TRUE(is_utf8("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"));  // the borders that are allowed
}

TEST(Utf8, tells_a_cut_character_from_a_wrong_one) {
    EXPECT_TRUE(decode_utf8("\xf0\x9f\x99", 0).incomplete);
    EXPECT_EQ(decode_utf8("\xf0\x9f\x99", 0).length, 3u);
    EXPECT_FALSE(decode_utf8("\xf0\x9f(", 0).incomplete);
    EXPECT_EQ(decode_utf8("\xf0\x9f(", 0).length, 2u);
}

}  // namespace
}  // namespace kvplane
