// Plugins by id and by path, third parties' and broken ones, as a user of the program meets them.
#include "command_line.h"

#include <set>

namespace kvplane::test {

namespace {

std::string source_file(const std::string& name) {
    return std::string(KVPLANE_SOURCE_DIR) + "/" + name;
}

// A plugin's own README, or the one that it shares with others of its kind.
std::string readme_of(const std::string& kind, const std::string& id) {
    const std::string own = source_file("plugins/" + kind + "/" + id + "/README.md");
    return read_file(std::filesystem::exists(own) ? own : source_file("plugins/" + kind + "/README.md"));
}

// The line of a table that begins with this cell.
std::string row_of(const std::string& document, const std::string& cell) {
    const size_t begin = document.find("\n| " + cell);
    if (begin == std::string::npos) return "";
    return document.substr(begin + 1, document.find('\n', begin + 1) - begin - 1);
}

std::string kv_plugin(const std::string& name) {
    return std::string(KVPLANE_CLI_PLUGIN_DIR) + "/" + name + ".so";
}

}  // namespace

class Plugins : public CommandLine {
protected:
    void expect_rejected(const std::string& plugin, const std::string& reason) const {
        const std::string setting = "kv.plugin=" + plugin;
        expect_refusal({"run", "-m", small_model, "--prompt", "x", "--set", setting}, 5, {plugin, reason});
        expect_refusal({"config", "check", "--set", setting}, 5, {plugin, reason});
    }
};

TEST_F(Plugins, are_listed_with_their_kinds) {
    std::map<std::string, std::string> kinds;
    const auto report = json({"plugin", "list"});
    for (const auto& plugin : report.at("plugins")) {
        kinds[plugin.at("id")] = plugin.at("kinds").at(0);
        EXPECT_EQ(plugin.at("problem"), "");
    }
    EXPECT_EQ(kinds["cpu"], "device");
    EXPECT_EQ(kinds["dense"], "kv");
    EXPECT_EQ(kinds["infinigen"], "kv");
    EXPECT_EQ(kinds["memcpy"], "transfer");
    EXPECT_NE(output({"plugin", "list"}).find("infinigen"), std::string::npos);
}

TEST_F(Plugins, that_are_broken_stand_in_the_list_with_the_reason) {
    const auto report = json({"plugin", "list"}, {std::string("KVPLANE_PLUGIN_PATH=") + KVPLANE_TEST_PLUGIN_DIR});
    for (const auto& plugin : report.at("plugins")) {
        if (!plugin.at("path").get<std::string>().ends_with("/wrong_major.so")) continue;
        EXPECT_NE(plugin.at("problem").get<std::string>().find("ABI major 2"), std::string::npos);
        return;
    }
    FAIL() << "no wrong_major.so in " << report;
}

TEST_F(Plugins, tell_their_options_by_id_and_by_path) {
    const auto by_id = json({"plugin", "info", "infinigen"});
    EXPECT_EQ(by_id.at("id"), "infinigen");
    std::vector<std::string> keys;
    for (const auto& option : by_id.at("options")) keys.push_back(option.at("key"));
    EXPECT_NE(std::find(keys.begin(), keys.end(), "alpha"), keys.end());
    EXPECT_EQ(json({"plugin", "info", by_id.at("path")}).at("options"), by_id.at("options"));
    EXPECT_NE(output({"plugin", "info", "infinigen"}).find("alpha"), std::string::npos);
    expect_refusal({"plugin", "info", "infinigne"}, 5, {"no plugin of this id", "did you mean \"infinigen\"?"});
    expect_refusal({"plugin", "info", "dense", "--kind", "device"}, 5, {"no device plugin of this id"});
}

TEST_F(Plugins, have_every_option_in_their_readme_and_in_the_users_guide) {
    const std::string guide = read_file(source_file("docs/users-guide.md"));
    std::set<std::string> kinds;
    size_t options = 0;
    const auto list = json({"plugin", "list"});
    for (const auto& plugin : list.at("plugins")) {
        const std::string kind = plugin.at("kinds").at(0), id = plugin.at("id"), readme = readme_of(kind, id);
        kinds.insert(kind);
        EXPECT_NE(guide.find(id + "`"), std::string::npos) << id;
        const std::string row = row_of(guide, "[`" + kind + "/" + id + "`]");
        const auto info = json({"plugin", "info", id, "--kind", kind});
        for (const auto& option : info.at("options")) {
            const std::string key = option.at("key");
            ++options;
            EXPECT_NE(readme.find("`" + key + "`"), std::string::npos) << kind << "/" << id << ": " << key;
            EXPECT_NE(row.find("`" + key + "`"), std::string::npos)
                << kind << "/" << id << ": " << key << " in " << row;
        }
    }
    EXPECT_EQ(kinds, (std::set<std::string>{"codec", "device", "kv", "transfer"}));
    EXPECT_GE(options, 60u);
}

TEST_F(Plugins, of_a_third_party_run_by_their_path) {
    const std::string plugin = kv_plugin("last_tokens");
    const Arguments arguments = {"run", "-m", small_model, "--prompt",           "The cat sat",
                                 "-n",  "40", "--set",     "kv.plugin=" + plugin};
    const auto report = json(arguments);
    EXPECT_EQ(report.at("strategy"), "last_tokens");
    EXPECT_EQ(report.at("generated_tokens"), 40);

    // Its options, in the table of its id.
    Arguments fewer = arguments;
    fewer.insert(fewer.end(), {"--set", "kv.last_tokens.recent=8", "--set", "kv.last_tokens.sinks=0"});
    EXPECT_LT(json(fewer).at("kv").at("share_read").get<double>(), report.at("kv").at("share_read").get<double>());
    Arguments wrong = arguments;
    wrong.insert(wrong.end(), {"--set", "kv.last_tokens.recnt=8"});
    expect_refusal(wrong, 3, {"unknown key kv.last_tokens.recnt", "nearest: kv.last_tokens.recent"});

    // By its id, from a folder that the pipeline names.
    const std::string pipeline = write("p.toml", "[plugins]\npath = [\"" + std::string(KVPLANE_CLI_PLUGIN_DIR) +
                                                     "\"]\n[kv]\nplugin = \"last_tokens\"\n");
    EXPECT_EQ(json({"run", "-p", pipeline, "-m", small_model, "--prompt", "x", "-n", "2"}).at("strategy"),
              "last_tokens");
}

TEST_F(Plugins, that_are_not_there_are_refused) {
    const std::string pipeline = write("p.toml", "[kv]\nplugin = \"absent\"\n");
    expect_refusal({"config", "check", "-p", pipeline}, 5, {"plugin \"absent\"", "(named by " + pipeline + ":2:10)"});
    expect_refusal({"config", "check"}, 5, {"(named by env KVPLANE_KV_PLUGIN)"}, {"KVPLANE_KV_PLUGIN=absent"});
    expect_rejected("densee", "no kv plugin of this id; did you mean \"dense\"?");
    expect_rejected("cpu", "no kv plugin of this id");
    expect_rejected(path("absent.so"), "resolve: no file ");
}

TEST_F(Plugins, that_are_broken_are_refused) {
    expect_rejected(kv_plugin("no_entry_kv"), "query: exports no function kvp_plugin_query_v1");
    expect_rejected(kv_plugin("missing_library_kv"), "open: libkvplane_test_absent.so: cannot open shared object file");
    expect_rejected(test_plugin("wrong_major"), "read note: built for ABI major 2, this program speaks 1");
    expect_rejected(test_plugin("needs_driver"), "read note: needs the driver library libkvplane_no_such_driver.so.7");
    expect_rejected(test_plugin("no_manifest"), "read note: a shared library, but no kvplane plugin");
    expect_rejected(test_plugin("sound"), "read note: serves codec, not kv");
    std::string bytes = read_file(kv_plugin("last_tokens"));
    bytes[18] = 21;  // e_machine: ppc64
    expect_rejected(write("ppc.so", bytes), "read note: built for ppc64, this machine is ");
    expect_rejected(write("cut.so", bytes.substr(0, 3000)), "read note: ");
    expect_rejected(write("text.so", "no library"), "read note: not an ELF file");
}

}  // namespace kvplane::test
