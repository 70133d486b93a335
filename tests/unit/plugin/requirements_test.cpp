#include "plugin/requirements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "support/temp_folder.h"

namespace kvplane::test {

namespace {

// What the kernel says, which looks at CPUID and at what it saves, as we do.
std::vector<std::string> kernel_flags() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("flags")) continue;
        std::istringstream words(line.substr(line.find(':') + 1));
        return {std::istream_iterator<std::string>(words), {}};
    }
    return {};
}

}  // namespace

#if defined(__x86_64__)
TEST(Requirements, know_the_same_cpu_features_as_the_kernel) {
    const auto flags = kernel_flags();
    ASSERT_FALSE(flags.empty());
    for (const char* const name :
         {"ssse3",       "sse4_1",   "sse4_2",     "popcnt",       "fma",         "f16c",          "avx",
          "bmi1",        "avx2",     "bmi2",       "avx512f",      "avx512dq",    "avx512ifma",    "avx512cd",
          "avx512bw",    "avx512vl", "avx512vbmi", "avx512_vbmi2", "avx512_vnni", "avx512_bitalg", "avx512_vpopcntdq",
          "avx512_fp16", "avx_vnni", "avx512_bf16"}) {
        const bool present = std::ranges::find(flags, name) != flags.end();
        EXPECT_EQ(cpu_feature(name), present ? CpuFeature::present : CpuFeature::absent) << name;
    }
}
#endif

TEST(Requirements, do_not_guess_about_a_cpu_feature_that_they_do_not_know) {
    EXPECT_EQ(cpu_feature("quantum_entangler"), CpuFeature::unknown);
}

TEST(Requirements, find_a_library_where_the_dynamic_linker_would) {
    EXPECT_TRUE(find_system_library("libc.so.6").is_absolute());
    EXPECT_EQ(find_system_library("libkvplane_no_such_driver.so.7"), "");
    EXPECT_EQ(find_system_library("c.so.6"), "");
    const TempFolder folder;
    write_file(folder.path() / "libkvplane_driver_of_a_test.so.1", "");
    EXPECT_EQ(find_system_library("libkvplane_driver_of_a_test.so.1"), "");
    ASSERT_EQ(setenv("LD_LIBRARY_PATH", ("/nowhere:" + folder.path().string()).c_str(), 1), 0);
    EXPECT_EQ(find_system_library("libkvplane_driver_of_a_test.so.1"),
              folder.path() / "libkvplane_driver_of_a_test.so.1");
    unsetenv("LD_LIBRARY_PATH");
}

TEST(Requirements, leave_a_manifest_without_needs_alone) {
    Manifest manifest;
    manifest.abi_major = 1;
    manifest.sanitizer = host_sanitizer();
    EXPECT_NO_THROW(check_requirements(manifest));
}

}  // namespace kvplane::test
