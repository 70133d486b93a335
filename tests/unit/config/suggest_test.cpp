#include "config/suggest.h"

#include <gtest/gtest.h>

#include <vector>

using namespace kvplane;

TEST(EditDistance, counts_edits) {
    EXPECT_EQ(edit_distance("", ""), 0u);
    EXPECT_EQ(edit_distance("abc", ""), 3u);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);  // the textbook's pair
    EXPECT_EQ(edit_distance("aplha", "alpha"), 1u);     // neighbours swapped
    EXPECT_EQ(edit_distance("ca", "abc"), 3u);          // 2 only if a swapped pair could be edited again
}

TEST(Nearest, finds_typing_errors) {
    const std::vector<std::string> names = {"dense", "window", "h2o", "infinigen"};
    EXPECT_EQ(nearest("infinigne", names), "infinigen");
    EXPECT_EQ(nearest("dence", names), "dense");
    EXPECT_EQ(nearest("h20", names), "h2o");
    EXPECT_EQ(nearest("dense", names), "dense");
}

TEST(Nearest, finds_beginnings) {
    const std::vector<std::string> names = {"infinigen", "window"};
    EXPECT_EQ(nearest("inf", names), "infinigen");
    EXPECT_EQ(nearest("windowed-attention", names), "window");
    EXPECT_EQ(nearest("in", names), "");
}

TEST(Nearest, stays_silent_when_nothing_is_near) {
    const std::vector<std::string> names = {"dense", "cpu"};
    EXPECT_EQ(nearest("snapkv", names), "");
    EXPECT_EQ(nearest("kv", names), "");
    EXPECT_EQ(nearest("", names), "");
    EXPECT_EQ(nearest("gpi", names), "");  // two edits of three letters are another word
    EXPECT_EQ(nearest(std::string(100000, 'd'), names), "");
    EXPECT_EQ(nearest("dense", {}), "");
}

TEST(NearestKey, finds_a_key_in_another_table) {
    const std::vector<std::string> keys = {"kv.plugin", "memory.page_tokens"};
    EXPECT_EQ(nearest_key("kv.page_tokens", keys), "memory.page_tokens");
    EXPECT_EQ(nearest_key("kv.plugn", keys), "kv.plugin");
    EXPECT_EQ(nearest_key("kv.size", keys), "");
}
