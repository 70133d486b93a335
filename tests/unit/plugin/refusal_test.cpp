// Every fault of a plugin has a message of its own: one line, with the plugin, the step and the reason.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "plugin/loader.h"
#include "plugin/requirements.h"
#include "support/temp_folder.h"

namespace kvplane::test {

namespace {

namespace fs = std::filesystem;

// "STEP: REASON" of the message; checks the rest of it and that the steps tell the same.
std::string refusal(const fs::path& path, const std::string& kind = "codec") {
    const TempFolder somewhere;
    try {
        PluginLoader({}).open(path, kind, somewhere.path())->init({});
    } catch (const LoadError& error) {
        const std::string text = error.what();
        EXPECT_EQ(error.kind(), ErrorKind::plugin);
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
        const LoadStep& last = error.steps().back();
        EXPECT_FALSE(last.ok);
        EXPECT_TRUE(std::all_of(error.steps().begin(), error.steps().end() - 1, [](auto& step) { return step.ok; }));
        const std::string tail = last.name + ": " + last.reason;
        EXPECT_TRUE(text.starts_with("plugin \"") && text.ends_with(": " + tail)) << text;
        EXPECT_NE(text.find(path.string()), std::string::npos) << text;
        return tail;
    }
    ADD_FAILURE() << path << " was loaded";
    return {};
}

std::string refusal_of(const std::string& name) {
    return refusal(test_plugin(name));
}

}  // namespace

TEST(Refusal, of_a_library_that_is_no_plugin) {
    EXPECT_EQ(refusal_of("no_manifest"),
              "read note: a shared library, but no kvplane plugin: it has no manifest note (KVP_MANIFEST)");
    EXPECT_EQ(refusal_of("no_entry"),
              "query: exports no function kvp_plugin_query_v1, so it does not speak ABI major 1");
    EXPECT_TRUE(refusal_of("bad_json").starts_with("read note: its manifest is not valid JSON: parse error at line 1"));
}

TEST(Refusal, of_another_version) {
    EXPECT_EQ(
        refusal_of("wrong_major"),
        "read note: built for ABI major 2, this program speaks 1; rebuild it against the headers of this version");
    EXPECT_EQ(refusal_of("host_too_old"), "validate: needs ABI 1.99 or newer, this program has 1.0; update kvplane");
}

TEST(Refusal, of_needs_that_the_machine_does_not_meet) {
    EXPECT_EQ(refusal_of("needs_cpu"),
              "read note: needs the CPU feature quantum_entangler, which this program does not "
              "know how to check");
    EXPECT_EQ(refusal_of("needs_driver"),
              "read note: needs the driver library libkvplane_no_such_driver.so.7, which is "
              "not installed on this machine");
    EXPECT_EQ(refusal_of("wrong_sanitizer"),
              std::string("read note: built with sanitizer \"memory\", this program with \"") + host_sanitizer() +
                  "\"; both must be the same");
}

TEST(Refusal, of_a_library_that_the_dynamic_linker_cannot_complete) {
    EXPECT_EQ(refusal_of("missing_library"),
              "open: libkvplane_test_absent.so: cannot open shared object file: No such "
              "file or directory");
    EXPECT_EQ(refusal_of("undefined_symbol"),
              "open: " + test_plugin("undefined_symbol").string() + ": undefined symbol: kvplane_test_defined_nowhere");
}

TEST(Refusal, of_a_descriptor_of_a_wrong_size) {
    EXPECT_EQ(refusal_of("size_zero"),
              "validate: its descriptor says a struct_size of 0, less than the 112 bytes that are required");
    EXPECT_EQ(refusal_of("size_short"),
              "validate: its descriptor says a struct_size of 104, less than the 112 bytes that are required");
    EXPECT_EQ(refusal_of("size_odd"), "validate: its descriptor says a struct_size of 116, which is no multiple of 8");
    EXPECT_EQ(refusal_of("size_huge"),
              "validate: its descriptor says a struct_size of 2147483640, more than the 65536 allowed");
}

TEST(Refusal, of_a_kind_that_lacks_what_it_requires) {
    EXPECT_EQ(refusal_of("floor_null"), "validate: its codec table lacks the required function encoded_bytes");
    EXPECT_EQ(refusal_of("table_short"), "validate: its codec table lacks the required function encoded_bytes");
    EXPECT_EQ(refusal_of("kind_missing"),
              "validate: its manifest names the kind codec, but get_kind gives no table for it");
}

TEST(Refusal, of_a_plugin_of_another_kind) {
    EXPECT_EQ(refusal(test_plugin("sound"), "kv"), "read note: serves codec, not kv; it cannot stand here");
}

TEST(Refusal, of_two_identities) {
    EXPECT_EQ(refusal_of("id_mismatch"),
              "validate: its descriptor says the id \"other\", its manifest \"fault\"; they must be the same");
}

TEST(Refusal, of_options_that_are_not_sane) {
    EXPECT_EQ(refusal_of("options_null"), "validate: declares options, but their table is NULL");
    EXPECT_TRUE(
        refusal_of("option_default").starts_with("validate: option \"bits\" has a default that breaks its own rule: "));
    EXPECT_EQ(refusal_of("option_twice"), "validate: declares the option \"bits\" twice");
}

TEST(Refusal, by_the_plugin_itself) {
    EXPECT_EQ(refusal_of("refuses"), "query: it refuses this program, because the moon is not full");
    EXPECT_EQ(refusal_of("init_fails"), "init: the device failed (KVP_ERROR_DEVICE), because the coffee is cold today");
    EXPECT_EQ(refusal_of("init_fails_silently"), "init: the budget is used up (KVP_NO_SPACE); it gives no reason");
}

TEST(Refusal, of_exceptions_that_cross_the_border) {
    EXPECT_EQ(refusal_of("throws_in_query"),
              "query: threw an exception out of its query function, which no plugin may: query says boo");
    EXPECT_EQ(refusal_of("throws_in_init"), "init: threw an exception out of init, which no plugin may: init says boo");
    EXPECT_EQ(refusal_of("throws_an_int"), "init: threw an exception out of init, which no plugin may");
}

TEST(Refusal, of_a_library_of_another_machine_or_a_damaged_one) {
    const TempFolder folder;
    std::string bytes = read_file(test_plugin("sound"));
    bytes[18] = 21;  // e_machine: ppc64
    write_file(folder.path() / "ppc.so", bytes);
    EXPECT_TRUE(refusal(folder.path() / "ppc.so").starts_with("read note: built for ppc64, this machine is "));
    write_file(folder.path() / "cut.so", read_file(test_plugin("sound")).substr(0, 5000));
    EXPECT_TRUE(refusal(folder.path() / "cut.so").starts_with("read note: the file is truncated"));
    write_file(folder.path() / "text.so", "hello");
    EXPECT_EQ(refusal(folder.path() / "text.so"), "read note: not an ELF file");
}

TEST(Refusal, of_a_file_that_others_may_change) {
    const TempFolder folder;
    fs::copy(test_plugin("sound"), folder.path() / "it.so");
    ASSERT_EQ(chmod((folder.path() / "it.so").c_str(), 0646), 0);
    EXPECT_EQ(refusal(folder.path() / "it.so"),
              "check file: everybody may write to it; take that right away (chmod o-w)");
}

TEST(Refusal, of_a_file_of_another_user) {
    const TempFolder folder;
    fs::copy(test_plugin("sound"), folder.path() / "it.so");
    if (chown((folder.path() / "it.so").c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root can make such a file";
    EXPECT_EQ(refusal(folder.path() / "it.so"),
              "check file: belongs to user 12345, neither to root nor to the user that runs this; change its owner");
}

TEST(Refusal, of_what_is_no_file_does_not_hang) {
    const TempFolder folder;
    ASSERT_EQ(mkfifo((folder.path() / "fifo.so").c_str(), 0600), 0);
    EXPECT_EQ(refusal(folder.path() / "fifo.so"), "check file: not a regular file");
    fs::create_directory(folder.path() / "folder.so");
    EXPECT_EQ(refusal(folder.path() / "folder.so"), "check file: not a regular file");
    EXPECT_EQ(refusal(folder.path() / "absent.so"), "resolve: no file " + (folder.path() / "absent.so").string());
}

TEST(Refusal, before_opening_runs_nothing_of_the_plugin) {
    const TempFolder folder;
    const fs::path trace = folder.path() / "trace";
    ASSERT_EQ(setenv("KVPLANE_TEST_TRACE", trace.c_str(), 1), 0);
    refusal(test_plugin("constructor_writes"), "kv");
    EXPECT_FALSE(fs::exists(trace));
    PluginLoader({}).open(test_plugin("constructor_writes"), "codec", "/");
    EXPECT_TRUE(fs::exists(trace)) << "the plugin of this test does not do what it is for";
    unsetenv("KVPLANE_TEST_TRACE");
}

TEST(Refusal, of_an_unknown_id_names_all_places_and_the_nearest) {
    const TempFolder first, second;
    fs::copy(test_plugin("sound"), second.path() / "x.so");
    fs::copy(test_plugin("lifecycle"), second.path() / "y.so");
    fs::copy(test_plugin("no_manifest"), first.path() / "sounf.so");
    const PluginLoader loader({{first.path(), "plugins.path"}, {second.path(), "built in"}});
    EXPECT_EQ(message_of([&] { loader.open("sounf", "codec", "/"); }),
              "plugin \"sounf\": resolve: no codec plugin of this id; " + (first.path() / "sounf.so").string() +
                  " is there, but a shared library, but no kvplane plugin: it has no manifest note (KVP_MANIFEST); did "
                  "you mean \"sound\"?; there are: sound, lifecycle; searched: " +
                  first.path().string() + " (plugins.path), " + second.path().string() + " (built in)");
}

TEST(Refusal, of_two_plugins_with_one_id_in_a_folder) {
    const TempFolder folder;
    fs::copy(test_plugin("sound"), folder.path() / "a.so");
    fs::copy(test_plugin("sound"), folder.path() / "b.so");
    const PluginLoader loader({{folder.path(), "built in"}});
    EXPECT_EQ(message_of([&] { loader.resolve("sound", "codec", "/"); }),
              "two plugins have this id: " + (folder.path() / "a.so").string() + " and " +
                  (folder.path() / "b.so").string() + "; remove one, or name the path");
}

}  // namespace kvplane::test
