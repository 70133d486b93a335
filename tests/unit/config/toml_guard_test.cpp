#include "config/toml_guard.h"

#include <gtest/gtest.h>

#include <string>

using namespace kvplane;

namespace {

// "line:column" of the first forbidden character, with a star when it is a control character; empty when there is none.
std::string found(std::string_view text) {
    const auto place = find_forbidden_character(text);
    if (!place) return {};
    return std::to_string(place->line) + ":" + std::to_string(place->column) + (place->is_control ? "*" : "");
}

}  // namespace

TEST(TomlGuard, lets_any_character_stand_in_strings_and_comments) {
    for (const char* text :
         {"", "a = 1\n", "# \u00e9\n", "a = '\u00e9'", "a = \"\u00e9\"", "a = '''\n\u00e9'\n'''",
          "a = \"\"\"\n\u00e9\"\n\"\"\"", "\"\u00e9\" = 1", "a = \"\\\"\u00e9\"", "a = '\\' # \u00e9",
          "a = \"\"\"x\"\"\"\"\" # \u00e9", "a = \"\" # \u00e9", "a = '' # '\u00e9", "a = \"\"\"\\\n \u00e9\"\"\"",
          "\xEF\xBB\xBF"
          "a = 1\r\n\tb = 2"}) {
        EXPECT_EQ(found(text), "") << text;
    }
}

TEST(TomlGuard, finds_other_characters_outside) {
    EXPECT_EQ(found("\u00e9 = 1"), "1:1");
    EXPECT_EQ(found("a = 1\nb = '\u00e9\u00e9' \u00e9"), "2:10");
    EXPECT_EQ(found("a = 'x\n\u00e9"), "2:1");  // the quote ends with its line
    EXPECT_EQ(found("a = \"\\\\\"\u00e9"), "1:9");
    EXPECT_EQ(found("a = '''x'''''\u00e9"), "1:14");  // two more quotes are content
    EXPECT_EQ(found("# x\n\u00e9"), "2:1");
}

TEST(TomlGuard, finds_control_characters_everywhere) {
    EXPECT_EQ(found("[\x01"), "1:2*");
    EXPECT_EQ(found("# \x7f"), "1:3*");
    EXPECT_EQ(found("a = '\u00e9\x1b'"), "1:7*");
    EXPECT_EQ(found(std::string_view("a\0", 2)), "1:2*");
}
