// What the loader finds, and how a plugin lives. What it refuses is in refusal_test.cpp.
#include "plugin/loader.h"

#include <gtest/gtest.h>
#include <kvplane/codec.h>

#include "support/temp_folder.h"

namespace kvplane::test {

namespace {

namespace fs = std::filesystem;

const fs::path nowhere = "/nowhere";

// A copy is a library of its own: it has another inode, so that no other test has started it.
fs::path copy_of(const std::string& plugin, const TempFolder& folder, const std::string& name) {
    fs::copy(test_plugin(plugin), folder.path() / name);
    return folder.path() / name;
}

std::vector<std::string> names_of(const std::vector<LoadStep>& steps) {
    std::vector<std::string> names;
    for (const LoadStep& step : steps) names.push_back(step.name);
    return names;
}

uint64_t counts(const Plugin& plugin) {
    return plugin.kind<kvp_codec>().encoded_bytes(1, 1);
}

}  // namespace

TEST(Loader, opens_a_plugin_by_path_and_starts_it_with_its_defaults) {
    const TempFolder folder;
    const fs::path path = copy_of("sound", folder, "it.so");
    const auto plugin = PluginLoader({}).open(path, "codec", nowhere);
    EXPECT_EQ(plugin->id(), "sound");
    EXPECT_EQ(plugin->path(), path);
    EXPECT_EQ(plugin->options().size(), 4u);
    EXPECT_EQ(names_of(plugin->steps()),
              (std::vector<std::string>{"resolve", "check file", "read note", "open", "query", "validate"}));
    plugin->init({});
    EXPECT_EQ(plugin->steps().size(), 7u);
    EXPECT_EQ(plugin->steps().back().name, "init");
    for (const LoadStep& step : plugin->steps()) EXPECT_TRUE(step.ok) << step.name;
    EXPECT_EQ(plugin->kind<kvp_codec>().encoded_bytes(64, 10), 640u);
}

TEST(Loader, takes_a_path_relative_to_the_pipeline_s_folder) {
    const TempFolder folder;
    fs::create_directory(folder.path() / "sub");
    const fs::path path = copy_of("sound", folder, "sub/it.so");
    const PluginLoader loader({});
    EXPECT_EQ(loader.resolve("sub/it.so", "codec", folder.path()), path);
    EXPECT_EQ(loader.resolve("../sub/it.so", "codec", folder.path() / "sub"), path);
    EXPECT_EQ(loader.resolve("it.so", "codec", folder.path() / "sub"), path);
}

TEST(Loader, finds_an_id_by_the_note_whatever_the_file_is_called) {
    const TempFolder first, second;
    copy_of("lifecycle", first, "other.so");
    const fs::path path = copy_of("sound", second, "libanything.so");
    const PluginLoader loader({{first.path(), "a"}, {second.path(), "b"}});
    EXPECT_EQ(loader.resolve("sound", "codec", nowhere), path);
}

TEST(Loader, prefers_the_earlier_folder) {
    const TempFolder first, second;
    const fs::path path = copy_of("sound", first, "z.so");
    copy_of("sound", second, "a.so");
    EXPECT_EQ(PluginLoader({{first.path(), "a"}, {second.path(), "b"}}).resolve("sound", "codec", nowhere), path);
}

TEST(Loader, never_looks_in_the_working_folder) {
    const TempFolder folder;
    copy_of("sound", folder, "sound.so");
    const fs::path before = fs::current_path();
    fs::current_path(folder.path());
    const PluginLoader loader({});
    EXPECT_THROW(loader.resolve("sound", "codec", nowhere), Error);
    EXPECT_THROW(loader.resolve("sound.so", "codec", nowhere), Error);
    fs::current_path(before);
}

TEST(Loader, loads_one_file_once_under_whatever_name) {
    const TempFolder folder;
    const fs::path path = copy_of("lifecycle", folder, "it.so");
    fs::create_hard_link(path, folder.path() / "hard.so");
    fs::create_symlink(path, folder.path() / "soft.so");
    const PluginLoader loader({});
    const auto plugin = loader.open(path, "codec", nowhere);
    EXPECT_EQ(loader.open(folder.path() / "hard.so", "codec", nowhere), plugin);
    EXPECT_EQ(loader.open(folder.path() / "soft.so", "codec", nowhere), plugin);
}

TEST(Loader, starts_a_plugin_once_and_ends_it_with_its_last_user) {
    const TempFolder folder;
    const fs::path path = copy_of("lifecycle", folder, "it.so");
    const PluginLoader loader({});
    auto plugin = loader.open(path, "codec", nowhere);
    plugin->init({});
    EXPECT_EQ(counts(*plugin), 1000u);
    auto second = loader.open(path, "codec", nowhere);
    second->init({});
    EXPECT_EQ(counts(*second), 1000u);
    plugin.reset();
    EXPECT_EQ(counts(*second), 1000u);
    second.reset();

    plugin = loader.open(path, "codec", nowhere);
    plugin->init({});
    EXPECT_EQ(counts(*plugin), 2001u);
}

TEST(Loader, opening_alone_starts_and_ends_nothing) {
    const TempFolder folder;
    const fs::path path = copy_of("lifecycle", folder, "it.so");
    const PluginLoader loader({});
    loader.open(path, "codec", nowhere).reset();
    const auto plugin = loader.open(path, "codec", nowhere);
    plugin->init({});
    EXPECT_EQ(counts(*plugin), 1000u);
}

TEST(Loader, hands_the_pipeline_s_options_to_the_plugin) {
    const TempFolder folder;
    const auto plugin = PluginLoader({}).open(copy_of("sound", folder, "it.so"), "codec", nowhere);
    EXPECT_EQ(message_of([&] {
                  plugin->init({{"group", int64_t(64)}});
              }),
              "plugin \"sound\" (" + (folder.path() / "it.so").string() +
                  "): init: a wrong argument (KVP_ERROR_INVALID), because 64 is taken");
    plugin->init({{"group", int64_t(128)}, {"alpha", 2.0}});
    EXPECT_NO_THROW(plugin->init({{"group", int64_t(128)}, {"alpha", 2.0}}));
}

TEST(Loader, does_not_run_one_plugin_with_two_sets_of_options) {
    const TempFolder folder;
    const fs::path path = copy_of("sound", folder, "it.so");
    const PluginLoader loader({});
    auto plugin = loader.open(path, "codec", nowhere);
    plugin->init({{"group", int64_t(128)}});
    EXPECT_TRUE(message_of([&] {
                    loader.open(path, "codec", nowhere)->init({});
                }).ends_with("already in use in this process with other options; end that use first"));
    EXPECT_EQ(plugin->kind<kvp_codec>().encoded_bytes(64, 10), 640u);
    plugin.reset();
    EXPECT_NO_THROW(loader.open(path, "codec", nowhere)->init({}));
}

TEST(Loader, gives_a_table_only_of_a_started_plugin_and_a_kind_that_it_serves) {
    const TempFolder folder;
    const auto plugin = PluginLoader({}).open(copy_of("sound", folder, "it.so"), "codec", nowhere);
    EXPECT_TRUE(message_of([&] { plugin->kind<kvp_codec>(); }).ends_with(" was not started"));
    plugin->init({});
    EXPECT_TRUE(message_of([&] { plugin->kind<kvp_kv>(); }).ends_with(" does not serve the kind kv"));
}

}  // namespace kvplane::test
