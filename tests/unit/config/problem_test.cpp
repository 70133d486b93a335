#include "config/problem.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

using namespace kvplane;

namespace {

Problem problem_in(const std::string& line, uint32_t column, uint32_t length) {
    Problem problem;
    problem.place.origin = {OriginKind::file, "p.toml", 12, column};
    problem.place.text = line;
    problem.place.column = column;
    problem.place.length = length;
    problem.what = "wrong";
    return problem;
}

std::string line_of(const std::string& text, int number) {
    size_t start = 0;
    for (int i = 0; i < number; ++i) start = text.find('\n', start) + 1;
    return text.substr(start, text.find('\n', start) - start);
}

}  // namespace

TEST(Problem, puts_the_caret_under_characters_not_bytes) {
    const std::string text = to_string(problem_in("\tn\xc3\xa9\xc3\xa9 = 5", 7, 1));
    EXPECT_EQ(line_of(text, 1), "    12 |  n\xc3\xa9\xc3\xa9 = 5");
    EXPECT_EQ(line_of(text, 2), "       |       ^");
}

TEST(Problem, shows_a_piece_of_a_long_line) {
    const std::string text = to_string(problem_in(std::string(5000, 'x') + "HERE" + std::string(5000, 'y'), 5001, 4));
    const std::string line = line_of(text, 1);
    const std::string caret = line_of(text, 2);
    EXPECT_LT(line.size(), 130u);
    EXPECT_EQ(line.find("HERE"), caret.find("^~~~"));
}

TEST(Problem, copies_no_control_bytes) {
    EXPECT_EQ(line_of(to_string(problem_in("a\x1b[2Jb", 1, 1)), 1), "    12 | a?[2Jb");
}

TEST(Problem, keeps_the_caret_in_reach_when_the_place_is_past_the_line) {
    EXPECT_EQ(line_of(to_string(problem_in("ab", 9, 4)), 2), "       |   ^");
    EXPECT_EQ(line_of(to_string(problem_in("", 1, 1)), 2), "       | ^");
}

TEST(Problems, counts_those_it_does_not_show) {
    Problems problems;
    for (int i = 0; i < 25; ++i) problems.add(problem_in("x", 1, 1));
    try {
        problems.throw_if_any();
        FAIL() << "nothing was thrown";
    } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_EQ(text.substr(0, 11), "25 problems");
        EXPECT_EQ(text.substr(text.size() - 10), "and 5 more");
    }
}
