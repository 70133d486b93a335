#include "plugin/catalog.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "support/temp_folder.h"

namespace kvplane::test {

namespace fs = std::filesystem;

TEST(Catalog, lists_plugins_by_their_notes_and_says_what_is_wrong_with_the_others) {
    const TempFolder folder;
    fs::copy(test_plugin("sound"), folder.path() / "b.so");
    fs::copy(test_plugin("no_manifest"), folder.path() / "a.so");
    fs::copy(test_plugin("wrong_major"), folder.path() / "c.so");
    write_file(folder.path() / "readme.txt", "not a library, not looked at");

    const auto entries = list_plugins({{"/nowhere", "test"}, {folder.path(), "test"}});
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].path, folder.path() / "a.so");
    EXPECT_FALSE(entries[0].manifest);
    EXPECT_EQ(entries[0].problem, "a shared library, but no kvplane plugin: it has no manifest note (KVP_MANIFEST)");
    EXPECT_EQ(entries[1].path, folder.path() / "b.so");
    ASSERT_TRUE(entries[1].manifest);
    EXPECT_EQ(entries[1].manifest->id, "sound");
    EXPECT_EQ(entries[1].problem, "");
    ASSERT_TRUE(entries[2].manifest);
    EXPECT_EQ(entries[2].manifest->abi_major, 2u);
    EXPECT_TRUE(entries[2].problem.starts_with("built for ABI major 2, this program speaks 1"));
}

TEST(Catalog, runs_nothing_of_what_it_lists) {
    const TempFolder folder;
    const fs::path trace = folder.path() / "trace";
    ASSERT_EQ(setenv("KVPLANE_TEST_TRACE", trace.c_str(), 1), 0);
    fs::copy(test_plugin("constructor_writes"), folder.path() / "it.so");
    const auto entries = list_plugins({{folder.path(), "test"}});
    unsetenv("KVPLANE_TEST_TRACE");
    ASSERT_EQ(entries.size(), 1u);
    ASSERT_TRUE(entries[0].manifest);
    EXPECT_EQ(entries[0].manifest->id, "constructor_writes");
    EXPECT_FALSE(fs::exists(trace));
}

}  // namespace kvplane::test
