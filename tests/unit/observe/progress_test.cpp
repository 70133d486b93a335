#include "observe/progress.h"

#include <gtest/gtest.h>

#include <vector>

using namespace kvplane;

namespace {

struct FakeDisplay {
    double now = 100.0;
    std::vector<std::string> lines;

    ProgressDisplay display(bool enabled = true) {
        ProgressDisplay result;
        result.enabled = enabled;
        result.seconds = [this] { return now; };
        result.show = [this](std::string_view line) { lines.emplace_back(line); };
        return result;
    }
};

}  // namespace

TEST(Progress, writes_percent_and_rate) {
    EXPECT_EQ(progress_text("prefill", 512, 2048, 2.0, "tokens"), "prefill   25 %  256 tokens/s  6 s left");
    EXPECT_EQ(progress_text("load", 96ull << 20, 96ull << 20, 4.0, "B"), "load  100 %  24.0 MiB/s");
    EXPECT_EQ(progress_text("decode", 3, 12, 2.0, "tokens"), "decode   25 %  1.5 tokens/s  6 s left");
    EXPECT_EQ(progress_text("eval", 1, 4, 200.0, "tokens"), "eval   25 %  0.0 tokens/s  10 min left");
    EXPECT_EQ(progress_text("eval", 1, 10, 1000.0, "tokens"), "eval   10 %  0.0 tokens/s  2.5 h left");
}

TEST(Progress, writes_the_amount_when_the_total_is_unknown) {
    EXPECT_EQ(progress_text("read", 1536, 0, 0.0, "B"), "read  1.5 KiB");
}

TEST(Progress, stays_silent_for_the_first_second) {
    FakeDisplay fake;
    {
        Progress progress("load", 10, "B", fake.display());
        fake.now += 0.99;
        progress.update(9);
    }
    EXPECT_TRUE(fake.lines.empty());
}

TEST(Progress, draws_after_a_second_ten_times_a_second_at_most_and_cleans_up) {
    FakeDisplay fake;
    {
        Progress progress("load", 1000, "tokens", fake.display());
        fake.now += 2.0;
        progress.update(500);
        fake.now += 0.05;
        progress.update(600);
        fake.now += 0.06;
        progress.update(700);
    }
    ASSERT_EQ(fake.lines.size(), 3u);
    EXPECT_EQ(fake.lines[0], "load   50 %  250 tokens/s  2 s left");
    EXPECT_EQ(fake.lines[1].substr(0, 12), "load   70 % ");
    EXPECT_EQ(fake.lines[2], "");
}

TEST(Progress, finishes_once) {
    FakeDisplay fake;
    Progress progress("load", 2, "B", fake.display());
    fake.now += 5.0;
    progress.update(1);
    progress.finish();
    progress.finish();
    EXPECT_EQ(fake.lines.size(), 2u);
}

TEST(Progress, draws_nothing_without_a_terminal) {
    FakeDisplay fake;
    {
        Progress progress("load", 2, "B", fake.display(false));
        fake.now += 5.0;
        progress.update(1);
    }
    EXPECT_TRUE(fake.lines.empty());
}
