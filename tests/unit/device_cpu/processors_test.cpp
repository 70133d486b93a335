#include "processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"

namespace kvplane::cpu {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
}

TEST(Processors, have_no_quota_where_no_group_sets_one) {
    const test::TempFolder folder;
    write(folder.path() / "cpu.max", "max 100000\n");
    EXPECT_EQ(processor_quota(folder.path(), "/"), std::nullopt);
    EXPECT_EQ(processor_quota(folder.path(), "/not/there"), std::nullopt);
}

TEST(Processors, are_limited_by_the_smallest_quota_up_the_hierarchy) {
    const test::TempFolder folder;
    write(folder.path() / "a/cpu.max", "150000 100000\n");
    write(folder.path() / "a/b/cpu.max", "max 100000\n");
    write(folder.path() / "a/b/c/cpu.max", "400000 100000\n");
    EXPECT_EQ(processor_quota(folder.path(), "/a/b/c"), 1.5);
    EXPECT_EQ(processor_quota(folder.path(), "/a/b"), 1.5);
    EXPECT_EQ(processor_quota(folder.path(), "/"), std::nullopt);
}

TEST(Processors, are_limited_by_quotas_of_version_1_too) {
    const test::TempFolder folder;
    write(folder.path() / "cpu/x/cpu.cfs_quota_us", "200000\n");
    write(folder.path() / "cpu/x/cpu.cfs_period_us", "100000\n");
    write(folder.path() / "cpu/cpu.cfs_quota_us", "-1\n");
    write(folder.path() / "cpu/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(processor_quota(folder.path(), "/x"), 2.0);
    EXPECT_EQ(processor_quota(folder.path(), "/"), std::nullopt);
}

TEST(Processors, are_those_of_the_affinity_mask) {
    cpu_set_t before;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    const int first = allowed_processors().front();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(first), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(allowed_processors(), std::vector<int>{first});
    EXPECT_EQ(default_threads(), 1u);
    sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace kvplane::cpu
