#include "observe/log.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "observe/terminal.h"

using namespace kvplane;

namespace {

std::string captured(const std::function<void()>& work) {
    testing::internal::CaptureStderr();
    work();
    return testing::internal::GetCapturedStderr();
}

// Levels are the process's, so each test puts the default back.
class LogTest : public testing::Test {
protected:
    void TearDown() override { set_log_levels(LogLevels()); }
};

std::string refusal(std::string_view specification) {
    try {
        LogLevels::parse(specification);
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::config);
        return error.what();
    }
    return "accepted";
}

}  // namespace

TEST(LogLevels, warns_by_default) {
    EXPECT_EQ(LogLevels().of("memory"), LogLevel::warn);
    EXPECT_EQ(LogLevels::parse("memory=debug").of("engine"), LogLevel::warn);
}

TEST(LogLevels, gives_each_component_its_own) {
    const LogLevels levels = LogLevels::parse("info, memory=debug,plugin.cpu = trace");
    EXPECT_EQ(levels.of("engine"), LogLevel::info);
    EXPECT_EQ(levels.of("memory"), LogLevel::debug);
    EXPECT_EQ(levels.of("plugin.cpu"), LogLevel::trace);
    EXPECT_EQ(levels.of("plugin"), LogLevel::info);
}

TEST(LogLevels, lets_a_component_rule_those_below_it) {
    const LogLevels levels = LogLevels::parse("plugin=error,plugin.cpu=info");
    EXPECT_EQ(levels.of("plugin.memcpy"), LogLevel::error);
    EXPECT_EQ(levels.of("plugin.cpu.pool"), LogLevel::info);
    EXPECT_EQ(levels.of("plugins"), LogLevel::warn);
}

TEST(LogLevels, refuses_what_is_no_level_and_says_what_is) {
    for (const char* specification : {"", "loud", "info,", "=debug", "memory=", "memory=loud", "me mory=info"}) {
        EXPECT_NE(refusal(specification).find("trace, debug, info, warn, error or off"), std::string::npos)
            << specification << ": " << refusal(specification);
    }
}

TEST(LogLevels, moves_the_level_for_all_and_stops_at_the_ends) {
    const LogLevels levels = LogLevels::parse("warn,memory=error");
    EXPECT_EQ(levels.more_verbose(1).of("engine"), LogLevel::info);
    EXPECT_EQ(levels.more_verbose(9).of("engine"), LogLevel::trace);
    EXPECT_EQ(levels.more_verbose(-1).of("engine"), LogLevel::error);
    EXPECT_EQ(levels.more_verbose(-9).of("engine"), LogLevel::off);
    EXPECT_EQ(levels.more_verbose(9).of("memory"), LogLevel::error);
}

TEST_F(LogTest, writes_level_component_and_parts_in_one_line) {
    const std::string text = captured([] { log("test.parts").warn("page ", 17, " of tier ", "host"); });
    EXPECT_NE(text.find("[warning] [test.parts] page 17 of tier host\n"), std::string::npos) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST_F(LogTest, keeps_quiet_below_the_level) {
    EXPECT_EQ(captured([] { log("test.quiet").info("nothing"); }), "");
}

TEST_F(LogTest, follows_levels_set_before_and_after_the_first_use) {
    Log& early = log("test.early");
    set_log_levels(LogLevels::parse("test.early=debug,test.late=debug"));
    EXPECT_TRUE(early.enabled(LogLevel::debug));
    EXPECT_TRUE(log("test.late").enabled(LogLevel::debug));
    EXPECT_FALSE(log("test.other").enabled(LogLevel::debug));
    EXPECT_EQ(&early, &log("test.early"));
}

TEST_F(LogTest, writes_no_escape_sequence_where_there_is_no_terminal) {
    const std::string text = captured([] { log("test.plain").error("model named \x1b[2J"); });
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("model named \\x1b[2J"), std::string::npos) << text;
}

TEST_F(LogTest, colours_the_level_alone_when_told_to) {
    set_log_colour(true);
    const std::string text = captured([] { log("test.colour").error("bad"); });
    set_log_colour(false);
    EXPECT_NE(text.find("[\x1b[31merror\x1b[0m] [test.colour] bad\n"), std::string::npos) << text;
}

TEST_F(LogTest, leaves_braces_alone) {
    EXPECT_NE(captured([] { log("test.braces").warn("{} {0}"); }).find("{} {0}"), std::string::npos);
}

TEST(Terminal, decides_about_colour) {
    EXPECT_TRUE(colour_allowed(true, nullptr, "xterm"));
    EXPECT_TRUE(colour_allowed(true, "", "xterm"));  // no-color.org: only when not empty
    EXPECT_TRUE(colour_allowed(true, nullptr, nullptr));
    EXPECT_FALSE(colour_allowed(true, "1", "xterm"));
    EXPECT_FALSE(colour_allowed(true, nullptr, "dumb"));
    EXPECT_FALSE(colour_allowed(false, nullptr, "xterm"));
}

TEST(Terminal, puts_log_lines_above_the_status_line) {
    const std::string text = captured([] {
        show_status("loading 50 %");
        write_stderr("a line\n");
        show_status("");
        write_stderr("another\n");
    });
    EXPECT_EQ(text, "\r\x1b[Kloading 50 %\r\x1b[Ka line\nloading 50 %\r\x1b[Kanother\n");
}
