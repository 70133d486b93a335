#include "plugin/search_path.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

namespace kvplane::test {

TEST(SearchPath, holds_the_pipeline_s_folders_then_the_environment_s_then_our_own) {
    ASSERT_EQ(setenv("KVPLANE_PLUGIN_PATH", "/env/one::/env/two/", 1), 0);
    const SearchPath path = standard_search_path({"/pipeline/plugins"});
    unsetenv("KVPLANE_PLUGIN_PATH");
    ASSERT_GE(path.size(), 4u);
    EXPECT_EQ(path[0].path, "/pipeline/plugins");
    EXPECT_EQ(path[0].origin, "plugins.path");
    EXPECT_EQ(path[1].path, "/env/one");
    EXPECT_EQ(path[1].origin, "KVPLANE_PLUGIN_PATH");
    EXPECT_EQ(path[2].path, "/env/two/");
    // The program of this test lies in BUILD/tests.
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    EXPECT_EQ(path[3].path, program.parent_path().parent_path() / "lib/kvplane");
    EXPECT_EQ(path[3].origin, "built in");
}

TEST(SearchPath, never_holds_a_folder_that_depends_on_where_the_program_was_started) {
    ASSERT_EQ(setenv("KVPLANE_PLUGIN_PATH", ".:plugins:../x", 1), 0);
    const SearchPath path = standard_search_path({});
    unsetenv("KVPLANE_PLUGIN_PATH");
    ASSERT_FALSE(path.empty());
    EXPECT_TRUE(std::ranges::all_of(path, [](const SearchFolder& folder) { return folder.path.is_absolute(); }));
    EXPECT_TRUE(std::ranges::all_of(path, [](const SearchFolder& folder) { return folder.origin == "built in"; }));
}

}  // namespace kvplane::test
