// kvplane config, and what becomes of pipelines that are wrong.
#include "command_line.h"

#include <map>
#include <set>

namespace kvplane::test {

class Config : public CommandLine {
protected:
    std::string pipeline(const std::string& text) const { return write("pipeline.toml", text); }

    // `run` and `config check` refuse it alike, before any model is looked at.
    void expect_rejected(const Arguments& more, const Arguments& parts, const Arguments& environment = {}) const {
        for (Arguments command :
             {Arguments{"config", "check"}, Arguments{"run", "-m", path("no-such-model"), "--prompt", "x"}}) {
            command.insert(command.end(), more.begin(), more.end());
            expect_refusal(command, 3, parts, environment);
        }
    }
};

TEST_F(Config, check_says_which_plugins_a_pipeline_takes) {
    EXPECT_EQ(output({"config", "check", "-p", config_file("infinigen.toml")}),
              "ok: device cpu, kv infinigen, codec f16, transfer memcpy\n");
    EXPECT_EQ(json({"config", "check", "-p", config_file("dense.toml")}).at("ok"), true);
}

TEST_F(Config, every_pipeline_of_the_tree_is_right_and_runs) {
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(config_file(""))) {
        if (entry.path().extension() != ".toml") continue;
        ++found;
        output({"config", "check", "-p", entry.path()});
        const auto report = json({"run", "-p", entry.path(), "-m", small_model, "--prompt", "The cat sat", "-n", "8"});
        EXPECT_EQ(report.at("generated_tokens"), 8) << entry.path();
    }
    EXPECT_GE(found, 3);
}

TEST_F(Config, explain_tells_the_origin_of_every_value_and_the_steps_of_every_plugin) {
    const std::string file = pipeline("[kv]\nplugin = \"infinigen\"\n\n[kv.infinigen]\n  alpha = 3\n");
    const Arguments arguments = {"config", "explain", "-p", file, "--set", "memory.page_tokens=32"};
    const Arguments environment = {"KVPLANE_SAMPLE_SEED=4"};
    std::map<std::string, std::pair<std::string, std::string>> values;
    const auto report = json(arguments, environment);
    for (const auto& row : report.at("values")) values[row.at("key")] = {row.at("value"), row.at("origin")};
    const auto is = [&](const char* key, const std::string& value, const std::string& origin) {
        EXPECT_EQ(values[key], std::pair(value, origin)) << key;
    };
    is("kv.plugin", "\"infinigen\"", file + ":2:10");
    is("kv.infinigen.alpha", "3.0", file + ":5:11");
    is("sample.seed", "4", "env KVPLANE_SAMPLE_SEED");
    is("memory.page_tokens", "32", "--set memory.page_tokens=32");
    is("transfer.plugin", "\"memcpy\"", "default");

    ASSERT_EQ(report.at("plugins").size(), 4u);
    for (const auto& plugin : report.at("plugins")) {
        EXPECT_EQ(plugin.at("taken"), true);
        std::vector<std::string> steps;
        for (const auto& step : plugin.at("steps")) {
            steps.push_back(step.at("step"));
            EXPECT_EQ(step.at("ok"), true);
        }
        EXPECT_EQ(steps, Arguments({"resolve", "check file", "read note", "open", "query", "validate"}));
    }

    const std::string text = output(arguments, environment);
    for (const std::string& part :
         {file + ":2:10", std::string("env KVPLANE_SAMPLE_SEED"), std::string("--set memory.page_tokens=32"),
          std::string("kv \"infinigen\": taken, ")}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
}

TEST_F(Config, every_key_of_the_core_and_every_pipeline_stands_in_the_users_guide) {
    const std::string guide = read_file(std::string(KVPLANE_SOURCE_DIR) + "/docs/users-guide.md");
    int found = 0;
    const auto report = json({"config", "explain"});
    for (const auto& row : report.at("values")) {
        const std::string key = row.at("key");
        const auto is_of = [&](const char* table) { return key.starts_with(table); };
        if (is_of("device.cpu.") || is_of("transfer.memcpy."))
            continue;  // of the plugins that a default pipeline names
        ++found;
        EXPECT_NE(guide.find("\n| `" + key + "` |"), std::string::npos) << key;
    }
    EXPECT_GE(found, 30);
    for (const auto& entry : std::filesystem::directory_iterator(config_file(""))) {
        const std::string name = entry.path().filename();
        EXPECT_NE(guide.find("\n| `configs/" + name + "` |"), std::string::npos) << name;
    }
}

TEST_F(Config, explain_shows_why_a_plugin_was_not_taken) {
    const Arguments arguments = {"config", "explain", "--json", "--set", "kv.plugin=absent"};
    const ProgramResult alone = run(arguments);
    EXPECT_EQ(alone.exit_code, 5);
    const auto report = parse_json(alone.output);
    const auto& plugin = report.at("plugins").at(1);
    EXPECT_EQ(plugin.at("slot"), "kv");
    EXPECT_EQ(plugin.at("taken"), false);
    EXPECT_EQ(plugin.at("steps").at(0).at("ok"), false);
    EXPECT_TRUE(plugin.at("steps").at(0).at("reason").get<std::string>().starts_with("no kv plugin of this id"));

    Arguments with_fallback = {"config", "explain", "-p",
                               pipeline("[kv]\nplugin = \"absent\"\nfallback = [\"dense\"]\n")};
    const auto second = json(with_fallback).at("plugins").at(2);
    EXPECT_EQ(second.at("wanted"), "dense");
    EXPECT_EQ(second.at("taken"), true);
}

// By hand, for 3 layers, 4 heads and 2 KV heads of 16, pages of 64 tokens. A page of a strategy's own data is a layer's and a KV head's.
TEST_F(Config, explain_tells_what_a_strategy_takes_of_a_model) {
    struct Found {
        std::map<std::string, std::string> ops;  // of each thing that it takes
        std::map<std::string, double> bytes;
        std::set<std::pair<int, int>> layers;
        nlohmann::json whole;
    };
    const auto explain = [&](const Arguments& settings) {
        const std::string file = pipeline("[model]\npath = \"" + small_model + "\"\n");
        Arguments command = {"config", "explain", "-p", file};
        for (const std::string& setting : settings) command.insert(command.end(), {"--set", setting});
        Found found;
        found.whole = json(command).at("strategy");
        for (const auto& one : found.whole.at("evidence")) {
            found.ops[one.at("what")] = one.at("op");
            found.layers.emplace(one.at("first_layer").get<int>(), one.at("end_layer").get<int>());
        }
        for (const auto& one : found.whole.at("bytes_per_token"))
            found.bytes[one.at("what")] = one.at("bytes_per_token");
        return found;
    };
    using Bytes = std::map<std::string, double>;
    using Ops = std::map<std::string, std::string>;
    constexpr double rows = 3 * 2 * 2 * 16 * 2;  // K and V in f16

    const Found dense = explain({});
    EXPECT_EQ(dense.ops, Ops());
    EXPECT_EQ(dense.bytes, (Bytes{{"K and V", rows}}));
    EXPECT_EQ(dense.whole.at("dense_layers"), 0);

    // Greatest and least K of 16 rows in f32, in the last layer.
    const Found quest = explain({"kv.plugin=quest"});
    EXPECT_EQ(quest.bytes, (Bytes{{"K and V", rows}, {"bounds", 2 * 2 * 16 * 4 / 16.0}}));
    EXPECT_EQ(quest.layers, (std::set<std::pair<int, int>>{{2, 3}}));
    EXPECT_EQ(quest.whole.at("dense_layers"), 2);

    // A sum in f32 a row, in all layers.
    const Found h2o = explain({"kv.plugin=h2o"});
    EXPECT_EQ(h2o.bytes, (Bytes{{"K and V", rows}, {"sums", 3 * 2 * 4}}));
    EXPECT_EQ(h2o.layers, (std::set<std::pair<int, int>>{{0, 3}}));
    EXPECT_EQ(h2o.ops.at("query"), "kvp.attention_input/1");
    EXPECT_EQ(h2o.ops.at("log-sum-exp"), "kvp.attention/1");

    // 12 of 16 columns as int8 with a scale a row in f32; mean of K and V and spread of K of a page in f16. In the last layer.
    const Bytes index = {{"K and V", rows},
                         {"keys", 2 * 12},
                         {"scales", 2 * 4},
                         {"means", 2 * 32 * 2 / 64.0},
                         {"spreads", 2 * 16 * 2 / 64.0}};
    const Found own_query = explain({"kv.plugin=infinigen"});
    EXPECT_EQ(own_query.bytes, index);
    const Ops chosen = {{"query", "kvp.attention_input/1"},
                        {"key", "kvp.attention_input/1"},
                        {"sums over columns of q and k", "kvp.column_statistics/1"},
                        {"columns of partial keys", "kvp.partial_index/1"},
                        {"partial keys", "kvp.partial_keys/1"},
                        {"scores of pages by mean and spread", "kvp.select_pages/1"},
                        {"scores of rows", "kvp.partial_scores/1"},
                        {"the best of the scores", "kvp.select_rows/1"},
                        {"page means", "kvp.page_means/1"},
                        {"weights of page means", "kvp.page_bias/1"}};
    EXPECT_EQ(own_query.ops, chosen);

    // A guess takes norm, projection and RoPE besides. The normed input stands between ops, which then are not fused.
    Ops guessed = chosen;
    guessed.insert({{"residual after attention", "kvp.linear/1"},
                    {"norm, for a guess of the query", "kvp.rms_norm/1"},
                    {"projection, for a guess of the query", "kvp.linear/1"},
                    {"RoPE, for a guess of the query", "kvp.rope/1"}});
    EXPECT_EQ(explain({"kv.plugin=infinigen", "tiers.host.access=copy"}).ops, guessed);
    guessed = chosen;
    guessed.insert({{"normed input", "kvp.rms_norm/1"},
                    {"projection, for a guess of the query", "kvp.linear/1"},
                    {"RoPE, for a guess of the query", "kvp.rope/1"}});
    guessed["query"] = guessed["key"] = "kvp.rope/1";
    EXPECT_EQ(explain({"kv.plugin=infinigen", "kv.infinigen.source=attn_input"}).ops, guessed);

    const std::string text = output({"config", "explain", "-m", small_model, "--set", "kv.plugin=quest"});
    for (const char* part :
         {"  layers 0 to 1: every row is read\n", "  layer 2: query by kvp.attention_input/1; cost: none\n",
          "  bounds: 16 bytes a token in all layers (device, outside of the tier's budget)\n"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
}

TEST_F(Config, an_unknown_key_is_named_with_its_place_and_the_nearest_one) {
    const std::string file = pipeline("[kv]\nplugin = \"dense\"\n[memory]\npage_tokns = 64\n");
    expect_rejected({"-p", file}, {file + ":4:1: unknown key memory.page_tokns", "nearest: memory.page_tokens"});
    expect_rejected({"--set", "kv.plugn=dense"}, {"--set kv.plugn=dense: unknown key kv.plugn", "nearest: kv.plugin"});
    const std::string in_plugin = pipeline("[kv]\nplugin = \"infinigen\"\n[kv.infinigen]\nalfa = 4\n");
    expect_rejected({"-p", in_plugin},
                    {in_plugin + ":4:1: unknown key kv.infinigen.alfa", "nearest: kv.infinigen.alpha"});
}

TEST_F(Config, wrong_types_and_values_are_named_with_what_is_allowed) {
    const std::string file = pipeline("[memory]\npage_tokens = \"many\"\nresident_share = 2\n[kv]\ncodec = 64\n");
    expect_rejected({"-p", file}, {file + ":2:15: memory.page_tokens cannot be \"many\"", "an integer from 4 to 256",
                                   file + ":3:18: memory.resident_share cannot be 2", "a number from 0 to 1",
                                   file + ":5:9: kv.codec cannot be 64", "kv.codec cannot be 64"});
    expect_rejected({"--set", "memory.page_tokens=63"}, {"--set memory.page_tokens=63", "a power of two"});
    expect_rejected({"--set", "tiers.device.kv_bytes=99999999999GiB"}, {"tiers.device.kv_bytes cannot be"});
    expect_rejected({"--set", "kv.plugin"}, {"KEY=VALUE"});
    expect_rejected({}, {"env KVPLANE_SAMPLE_SEED", "sample.seed cannot be \"x\""}, {"KVPLANE_SAMPLE_SEED=x"});
}

// `config check` refuses it as a run does, with a model and without one.
TEST_F(Config, what_cannot_work_is_refused_with_the_reason_of_a_run) {
    struct Case {
        Arguments settings;
        int exit_code;
        Arguments parts;
    };
    const Case cases[] = {
        {{"kv.codec=kivi", "memory.page_tokens=16"}, 3, {"encodes 32 tokens together", "memory.page_tokens = 16"}},
        {{"kv.codec=kivi", "codec.kivi.bits=3"}, 5, {"must be 2 or 4"}},
        {{"kv.codec=kivi", "kv.plugin=h2o"}, 3, {"encodes 32 tokens together", "h2o lets single rows go"}},
        {{"kv.codec=kivi", "kv.plugin=snapkv"}, 3, {"encodes 32 tokens together", "snapkv lets single rows go"}},
        {{"kv.codec=kivi", "kv.plugin=infinigen", "kv.infinigen.pool_tokens=512"},
         3,
         {"encodes 32 tokens together", "a pool"}},
        {{"kv.plugin=quest", "kv.quest.page_tokens=48"}, 5, {"kv.quest.page_tokens = 48 does not divide"}},
        {{"kv.plugin=snapkv", "kv.snapkv.kernel=4"}, 5, {"kv.snapkv.kernel must be odd"}},
        {{"kv.plugin=infinigen", "kv.infinigen.pool_tokens=128"}, 3, {"a pool of 128 tokens is too small"}},
        {{"kv.plugin=infinigen", "kv.infinigen.skew=on"}, 5, {"needs a calibration of this model"}},
        {{"tiers.device.kv_bytes=100"}, 6, {"tiers.device.kv_bytes is 100 bytes, less than one page"}},
        // The shortest text has a page a layer; two more must be there, or four where it spills.
        {{"tiers.host.access=copy", "tiers.device.kv_bytes=32KiB"}, 6, {"a text of", "raise tiers.device.kv_bytes"}},
    };
    for (const Case& one : cases) {
        for (Arguments command : {Arguments{"config", "check"}, Arguments{"config", "check", "-m", small_model},
                                  Arguments{"run", "-m", small_model, "--prompt", "The cat", "-n", "2"}}) {
            for (const std::string& setting : one.settings) command.insert(command.end(), {"--set", setting});
            expect_refusal(command, one.exit_code, one.parts);
        }
    }
    expect_refusal({"config", "check", "--set", "kv.plugin=snapkv", "--set", "kv.snapkv.kernel=4"}, 5,
                   {"found with a nominal model", "--model FILE"});
    EXPECT_NE(output({"config", "check", "--set", "kv.codec=kivi", "--set", "codec.kivi.bits=2"}).find("codec kivi"),
              std::string::npos);
}

TEST_F(Config, check_tells_of_a_model_what_only_it_can_tell) {
    expect_refusal({"config", "check", "-m", path("no-such-model")}, 4, {path("no-such-model")});
    // 2 KV heads of 16 in f16: a page of 64 tokens takes 8 KiB, three layers and two more 40.
    EXPECT_EQ(output({"config", "check", "-m", small_model, "--set", "tiers.host.access=copy", "--set",
                      "tiers.device.kv_bytes=40KiB"}),
              "ok: device cpu, kv dense, codec f16, transfer memcpy\n");
}

// It belongs to one model, so without a model it is read and no more.
TEST_F(Config, check_looks_at_a_calibration) {
    const std::string text =
        write("sample.txt", "The quick brown fox jumps over the lazy dog. The cat sat on the mat.");
    const std::string aux = path("small.aux");
    const Arguments infinigen = {"--set", "kv.plugin=infinigen", "--set", "kv.infinigen.skew=on"};
    Arguments calibrate = {"calibrate", "kv", "-m", small_model, "--text", text, "-o", aux};
    calibrate.insert(calibrate.end(), infinigen.begin(), infinigen.end());
    output(calibrate);
    const auto check = [&](const std::string& file, Arguments more) {
        Arguments command = {"config", "check", "--set", "kv.aux=" + file};
        command.insert(command.end(), more.begin(), more.end());
        return command;
    };
    Arguments with_model = infinigen;
    with_model.insert(with_model.end(), {"-m", small_model});
    output(check(aux, infinigen));
    output(check(aux, with_model));
    std::string bytes = read_file(aux);
    bytes.back() ^= 1;
    for (const Arguments& more : {infinigen, with_model}) {
        expect_refusal(check(write("damaged.aux", bytes), more), 3, {"damaged.aux: is damaged"});
        expect_refusal(check(path("absent.aux"), more), 3, {"absent.aux: cannot be opened"});
    }
    with_model.back() = golden_model("tiny-gqa-d64-f16");
    expect_refusal(check(aux, with_model), 3, {"was made for another model"});
    expect_refusal(check(aux, {}), 3, {"was made for KV strategy infinigen, not dense"});
}

TEST_F(Config, a_file_that_is_no_toml_or_not_there_is_named) {
    const std::string broken = pipeline("[kv]\nplugin = \"dense\n");
    expect_rejected({"-p", broken}, {broken + ":2:", "not TOML"});
    expect_rejected({"-p", path("absent.toml")}, {path("absent.toml"), "there is no such file"});
    expect_rejected({"-p", write("bytes.toml", std::string("\xff\xfe\0\0", 4))}, {"bytes.toml"});
}

}  // namespace kvplane::test
