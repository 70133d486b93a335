#include "tokenizer/utf8_stream.h"

#include <gtest/gtest.h>

#include "support/golden.h"

namespace kvplane {
namespace {

std::string from_hex(const std::string& hex) {
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2) {
        bytes += static_cast<char>(std::stoul(hex.substr(i, 2), nullptr, 16));
    }
    return bytes;
}

// Golden values: tests/reference/make_tokenizer_golden.py, Python's bytes.decode("utf-8", "replace").
TEST(Utf8Stream, gives_what_python_gives_however_the_bytes_arrive) {
    for (const auto& golden : test::read_golden("utf8.json")) {
        const std::string bytes = from_hex(golden["bytes"]);
        SCOPED_TRACE(golden["bytes"].get<std::string>());
        for (size_t step = 1; step <= bytes.size(); ++step) {
            Utf8Stream stream;
            std::string text;
            for (size_t at = 0; at < bytes.size(); at += step) text += stream.push(bytes.substr(at, step));
            text += stream.finish();
            EXPECT_EQ(text, golden["text"].get<std::string>()) << "in steps of " << step;
        }
    }
}

TEST(Utf8Stream, holds_back_only_the_start_of_a_character) {
    Utf8Stream stream;
    EXPECT_EQ(stream.push("ab\xf0\x9f"), "ab");
    EXPECT_EQ(stream.push("\x99"), "");
    EXPECT_EQ(stream.push("\x82!"), "\U0001f642!");
    EXPECT_EQ(stream.finish(), "");
    EXPECT_EQ(stream.push("\xe4\xbd"), "");
    EXPECT_EQ(stream.finish(), "\ufffd");
    EXPECT_EQ(stream.push("x"), "x");
}

}  // namespace
}  // namespace kvplane
