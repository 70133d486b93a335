#include "plugin/manifest.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace kvplane::test {

namespace {

std::string reason_for(const std::string& json) {
    return message_of([&] { parse_manifest(json); });
}

}  // namespace

TEST(Manifest, reads_every_key_and_leaves_unknown_ones_aside) {
    const Manifest manifest = parse_manifest(R"({"kinds":["device","transfer"],"id":"gpu-x","version":"2.1","abi":"1.7",
        "cpu":["avx2","fma"],"drivers":["libcuda.so.1"],"gpu":["sm_90"],"sanitizer":"thread","flavour":{"of":"later"}})");
    EXPECT_EQ(manifest.kinds, (std::vector<std::string>{"device", "transfer"}));
    EXPECT_EQ(manifest.id, "gpu-x");
    EXPECT_EQ(manifest.version, "2.1");
    EXPECT_EQ(manifest.abi_major, 1u);
    EXPECT_EQ(manifest.abi_minor, 7u);
    EXPECT_EQ(manifest.cpu, (std::vector<std::string>{"avx2", "fma"}));
    EXPECT_EQ(manifest.drivers, std::vector<std::string>{"libcuda.so.1"});
    EXPECT_EQ(manifest.gpu, std::vector<std::string>{"sm_90"});
    EXPECT_EQ(manifest.sanitizer, "thread");
    EXPECT_TRUE(manifest.serves("transfer"));
    EXPECT_FALSE(manifest.serves("kv"));
}

TEST(Manifest, has_no_needs_unless_it_says_so) {
    const Manifest manifest = parse_manifest(R"({"kinds":["kv"],"id":"w","version":"1","abi":"1.0"})");
    EXPECT_TRUE(manifest.cpu.empty());
    EXPECT_TRUE(manifest.drivers.empty());
    EXPECT_TRUE(manifest.gpu.empty());
    EXPECT_EQ(manifest.sanitizer, "none");
}

TEST(Manifest, says_what_is_wrong_with_it) {
    EXPECT_TRUE(reason_for("{\"id\":").starts_with("its manifest is not valid JSON: parse error at line 1, column 7"));
    EXPECT_TRUE(reason_for("").starts_with("its manifest is not valid JSON: "));
    EXPECT_TRUE(reason_for("{\"id\":\"\xff\"}").starts_with("its manifest is not valid JSON: "));
    EXPECT_EQ(reason_for("[]"), "its manifest is not a JSON object");
    EXPECT_EQ(reason_for("{}"), "its manifest has no \"id\"");
    EXPECT_EQ(reason_for(R"({"id":3})"), "its manifest has a \"id\" that is no string");
    EXPECT_EQ(reason_for(R"({"id":"../x"})"),
              "its manifest has an \"id\" that is not of a-z, 0-9, '_', '-', '.' (at most 64)");
    EXPECT_EQ(reason_for(R"({"id":"w"})"), "its manifest has no \"kinds\"");
    EXPECT_EQ(reason_for(R"({"id":"w","kinds":"kv"})"), "its manifest has a \"kinds\" that is no list of strings");
    EXPECT_EQ(reason_for(R"({"id":"w","kinds":["kv"]})"), "its manifest has no \"version\"");
    EXPECT_EQ(reason_for(R"({"id":"w","kinds":["kv"],"version":"1"})"), "its manifest has no \"abi\"");
    EXPECT_EQ(reason_for(R"({"id":"w","kinds":["kv"],"version":"1","abi":"1.0","cpu":[1]})"),
              "its manifest has a \"cpu\" that is no list of strings");
    EXPECT_EQ(reason_for(R"({"id":"w","kinds":["kv"],"version":"1","abi":"1.0","drivers":[""]})"),
              "its manifest has a \"drivers\" that is no list of strings");
}

TEST(Manifest, takes_an_abi_of_two_numbers_only) {
    for (const std::string abi : {"1", "1.", ".0", "1.0.0", "-1.0", "1.x", "99999999999.0", " 1.0", ""}) {
        EXPECT_EQ(reason_for(R"({"id":"w","kinds":["kv"],"version":"1","abi":")" + abi + "\"}"),
                  "its manifest has an \"abi\" of \"" + abi + "\"; it reads MAJOR.MINOR, as \"1.0\"");
    }
}

TEST(Manifest, survives_json_that_nests_without_end) {
    EXPECT_TRUE(reason_for(std::string(60000, '[')).starts_with("its manifest is not valid JSON: "));
}

}  // namespace kvplane::test
