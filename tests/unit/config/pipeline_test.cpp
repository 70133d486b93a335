#include "config/pipeline.h"

#include <cmath>
#include <cstdlib>

#include "unit/config/pipeline_fixture.h"

using namespace kvplane;

TEST_F(PipelineTest, needs_no_file) {
    const Pipeline pipeline = Pipeline::load({});
    EXPECT_EQ(pipeline.text("device.plugin"), "cpu");
    EXPECT_EQ(pipeline.text("kv.plugin"), "dense");
    EXPECT_EQ(pipeline.text("transfer.plugin"), "memcpy");
    EXPECT_EQ(pipeline.integer("memory.page_tokens"), 64);
    EXPECT_EQ(pipeline.real("memory.resident_share"), 0.1);
    EXPECT_EQ(pipeline.size("tiers.device.kv_bytes"), std::nullopt);
    EXPECT_TRUE(pipeline.path("model.path").empty());
    EXPECT_TRUE(pipeline.list("kv.fallback").empty());
    EXPECT_EQ(to_string(pipeline.origin("kv.plugin")), "default");
}

TEST_F(PipelineTest, takes_every_type_from_the_file) {
    const Pipeline pipeline = load(R"(
[model]
context = 4096
[kv]
plugin = "infinigen"
fallback = ["window", "dense"]
dtype = "f32"
[tiers]
device.kv_bytes = "4MiB"
host = { kv_bytes = 1048576, access = "copy" }
[memory]
resident_share = 0.25
[sample]
top_p = 1  # an integer is a number
)");
    EXPECT_EQ(pipeline.integer("model.context"), 4096);
    EXPECT_EQ(pipeline.text("kv.plugin"), "infinigen");
    EXPECT_EQ(pipeline.list("kv.fallback"), (std::vector<std::string>{"window", "dense"}));
    EXPECT_EQ(pipeline.text("kv.codec"), "f32");
    EXPECT_EQ(pipeline.size("tiers.device.kv_bytes"), 4194304u);
    EXPECT_EQ(pipeline.size("tiers.host.kv_bytes"), 1048576u);
    EXPECT_EQ(pipeline.text("tiers.host.access"), "copy");
    EXPECT_EQ(pipeline.real("memory.resident_share"), 0.25);
    EXPECT_EQ(pipeline.real("sample.top_p"), 1.0);
}

TEST_F(PipelineTest, takes_every_type_from_plain_text) {
    const Pipeline pipeline = load("", {"model.context=4096", "tiers.device.kv_bytes=auto", "tiers.host.kv_bytes=2KiB",
                                        "kv.fallback=window,dense", "sample.temperature=0.5", "kv.aux=a=b.bin"});
    EXPECT_EQ(pipeline.integer("model.context"), 4096);
    EXPECT_EQ(pipeline.size("tiers.device.kv_bytes"), std::nullopt);
    EXPECT_EQ(pipeline.size("tiers.host.kv_bytes"), 2048u);
    EXPECT_EQ(pipeline.list("kv.fallback"), (std::vector<std::string>{"window", "dense"}));
    EXPECT_EQ(pipeline.real("sample.temperature"), 0.5);
    EXPECT_EQ(pipeline.path("kv.aux"), "a=b.bin");
}

TEST_F(PipelineTest, prefers_override_to_environment_to_file_to_default) {
    const std::string file = "[kv]\nplugin = 'from-file'";
    const std::map<std::string, std::string> environment = {{"KVPLANE_KV_PLUGIN", "from-environment"}};

    const Pipeline by_file = load(file);
    EXPECT_EQ(by_file.text("kv.plugin"), "from-file");
    EXPECT_EQ(to_string(by_file.origin("kv.plugin")), request_.file.string() + ":2:10");

    const Pipeline by_environment = load(file, {}, environment);
    EXPECT_EQ(by_environment.text("kv.plugin"), "from-environment");
    EXPECT_EQ(to_string(by_environment.origin("kv.plugin")), "env KVPLANE_KV_PLUGIN");

    const Pipeline by_override = load(file, {"kv.plugin=first", "kv.plugin=last"}, environment);
    EXPECT_EQ(by_override.text("kv.plugin"), "last");
    EXPECT_EQ(to_string(by_override.origin("kv.plugin")), "--set kv.plugin=last");
}

TEST_F(PipelineTest, takes_an_empty_variable_for_none) {
    EXPECT_EQ(load("", {}, {{"KVPLANE_KV_PLUGIN", ""}}).text("kv.plugin"), "dense");
}

TEST_F(PipelineTest, points_at_an_unknown_key) {
    EXPECT_EQ(load_refusal("[kv]\nplugn = \"dense\"\n"),
              "pipeline.toml:2:1: unknown key kv.plugn\n"
              "    2 | plugn = \"dense\"\n"
              "      | ^~~~~\n"
              "    allowed: kv.plugin, kv.fallback, kv.codec, kv.aux\n"
              "    nearest: kv.plugin");
}

TEST_F(PipelineTest, points_at_a_bad_value) {
    EXPECT_EQ(load_refusal("[tiers.host]\n  access = \"cipy\"\n"),
              "pipeline.toml:2:12: tiers.host.access cannot be \"cipy\"\n"
              "    2 |   access = \"cipy\"\n"
              "      |            ^~~~~~\n"
              "    allowed: one of auto, direct, copy\n"
              "    nearest: copy");
}

TEST_F(PipelineTest, points_into_overrides_and_environment) {
    EXPECT_EQ(load_refusal("", {"device.threads=many"}),
              "--set device.threads=many: device.threads cannot be \"many\"\n"
              "    | device.threads=many\n"
              "    |                ^~~~\n"
              "    allowed: an integer from 0 to 1024 (threads)");
    EXPECT_EQ(load_refusal("", {}, {{"KVPLANE_TIERS_HOST_ACCESS", "direkt"}}),
              "env KVPLANE_TIERS_HOST_ACCESS: tiers.host.access cannot be \"direkt\"\n"
              "    | KVPLANE_TIERS_HOST_ACCESS=direkt\n"
              "    |                           ^~~~~~\n"
              "    allowed: one of auto, direct, copy\n"
              "    nearest: direct");
}

TEST_F(PipelineTest, names_the_other_table_of_a_misplaced_key) {
    EXPECT_NE(load_refusal("[kv]\npage_tokens = 64").find("nearest: memory.page_tokens"), std::string::npos);
}

TEST_F(PipelineTest, reports_all_problems_in_the_order_of_the_file) {
    const std::string text = load_refusal("[sample]\ntop_k = -1\n[kv]\ncodec = 3\n", {"nothing"});
    EXPECT_EQ(text.substr(0, text.find('\n')), "3 problems in the pipeline:");
    const auto first = text.find("pipeline.toml:2:9: sample.top_k cannot be -1");
    const auto second = text.find("pipeline.toml:4:9: kv.codec cannot be 3");
    const auto third = text.find("--set nothing: no key or no '='");
    EXPECT_LT(first, second);
    EXPECT_LT(second, third);
    EXPECT_NE(third, std::string::npos);
}

TEST_F(PipelineTest, checks_a_value_that_another_one_overrides) {
    EXPECT_NE(load_refusal("[kv]\ncodec = ''", {"kv.codec=f32"}).find("kv.codec cannot be \"\""), std::string::npos);
}

TEST_F(PipelineTest, points_at_a_fault_of_syntax) {
    const std::string text = load_refusal("[kv]\nplugin = dense\n");
    EXPECT_EQ(text.substr(0, text.find(": ")), "pipeline.toml:2:10") << text;
    EXPECT_NE(text.find("not TOML"), std::string::npos);
    EXPECT_NE(text.find("2 | plugin = dense"), std::string::npos);
    EXPECT_NE(load_refusal("[kv]\nplugin='a'\nplugin='b'\n").find("pipeline.toml:3:"), std::string::npos);
}

TEST_F(PipelineTest, refuses_an_unknown_table_once) {
    const std::string text = load_refusal("[tears.device]\nkv_bytes = 1\nother = 2\n");
    EXPECT_EQ(text.substr(0, text.find('\n')), "pipeline.toml:1:2: unknown table [tears]");
    EXPECT_NE(text.find("nearest: tiers"), std::string::npos) << text;
}

TEST_F(PipelineTest, refuses_a_table_for_a_value_and_a_value_for_a_table) {
    EXPECT_NE(load_refusal("[kv.codec]\nname = 'f16'").find("kv.codec cannot be a table"), std::string::npos);
    EXPECT_NE(load_refusal("kv = 'dense'").find("kv is a table, it cannot be \"dense\""), std::string::npos);
    EXPECT_NE(load_refusal("tiers.host = 7").find("tiers.host is a table, it cannot be 7"), std::string::npos);
}

TEST_F(PipelineTest, does_not_take_a_quoted_key_for_a_path) {
    EXPECT_NE(load_refusal("\"kv.plugin\" = 'dense'").find("unknown key \"kv.plugin\""), std::string::npos);
}

TEST_F(PipelineTest, refuses_values_of_another_type) {
    for (const char* text :
         {"[device]\nthreads = 1.0", "[device]\nthreads = '4'", "[kv]\nplugin = 1", "[kv]\nplugin = ''",
          "[kv]\nfallback = 'dense'", "[kv]\nfallback = ['a', 1]", "[memory]\nresident_share = '0.1'",
          "[memory]\nresident_share = nan", "[memory]\nresident_share = inf", "[memory]\npage_tokens = 48",
          "[memory]\npage_tokens = 512", "[tiers.device]\nkv_bytes = -1", "[tiers.device]\nkv_bytes = 1.5",
          "[tiers.device]\nkv_bytes = 'most'", "[kv]\naux = 1979-05-27", "[log]\nlevel = 'loud'",
          "[plugins]\npath = 'folder'"}) {
        EXPECT_NE(load_refusal(text).find(" cannot be "), std::string::npos) << text;
    }
    for (const char* override_text : {"device.threads=", "device.threads=4 ", "device.threads=0x10", "sample.top_p=1,0",
                                      "sample.seed=99999999999999999999", "memory.resident_share=nan"}) {
        EXPECT_NE(load_refusal("", {override_text}).find(" cannot be "), std::string::npos) << override_text;
    }
}

TEST_F(PipelineTest, takes_relative_paths_of_the_file_from_its_folder_and_others_from_the_working_folder) {
    const std::string file = "[kv]\naux = 'cal/skew.bin'\n[plugins]\npath = ['../lib', '/opt/lib']";
    const Pipeline pipeline = load(file);
    EXPECT_EQ(pipeline.path("kv.aux"), folder_ / "cal" / "skew.bin");
    EXPECT_EQ(pipeline.list("plugins.path"),
              (std::vector<std::string>{(folder_.parent_path() / "lib").string(), "/opt/lib"}));
    EXPECT_EQ(load(file, {"kv.aux=other.bin"}).path("kv.aux"), "other.bin");
    EXPECT_EQ(load(file, {}, {{"KVPLANE_KV_AUX", "x/../other.bin"}}).path("kv.aux"), "other.bin");
    EXPECT_TRUE(load(file, {"kv.aux="}).path("kv.aux").empty());
}

TEST_F(PipelineTest, warns_of_a_variable_that_matches_nothing_and_names_the_nearest) {
    Pipeline pipeline = load("", {},
                             {{"KVPLANE_KV_PLUGN", "x"},
                              {"KVPLANE_CACHE", "x"},
                              {"KVPLANE_CPU", "x"},
                              {"KVPLANE_PLUGIN_PATH", "x"},
                              {"KVPLANE_LOG_LEVEL", "info"},
                              {"OTHER", "x"}});
    pipeline.check_plugins();
    ASSERT_EQ(pipeline.warnings().size(), 1u);
    EXPECT_EQ(pipeline.warnings()[0],
              "environment variable KVPLANE_KV_PLUGN matches no key of the pipeline and does nothing; nearest: "
              "KVPLANE_KV_PLUGIN");
    EXPECT_EQ(pipeline.text("log.level"), "info");
}

TEST_F(PipelineTest, explains_every_key_with_value_and_origin) {
    const Pipeline pipeline = load("[tiers.device]\nkv_bytes = '4MiB'", {"sample.temperature=1"});
    const auto rows = pipeline.explain();
    ASSERT_EQ(rows.size(), core_schema().keys().size());
    const auto row = [&](const std::string& key) {
        for (const auto& candidate : rows) {
            if (candidate.key == key) return candidate;
        }
        ADD_FAILURE() << "no row for " << key;
        return ExplainRow();
    };
    EXPECT_EQ(row("tiers.device.kv_bytes").value, "4194304");
    EXPECT_EQ(row("tiers.device.kv_bytes").origin, request_.file.string() + ":2:12");
    EXPECT_EQ(row("tiers.host.kv_bytes").value, "auto");
    EXPECT_EQ(row("tiers.host.kv_bytes").origin, "default");
    EXPECT_EQ(row("sample.temperature").value, "1.0");
    EXPECT_EQ(row("sample.temperature").origin, "--set sample.temperature=1");
    for (const auto& each : rows) EXPECT_FALSE(each.doc.empty()) << each.key;
}

TEST_F(PipelineTest, says_what_is_wrong_with_the_file_itself) {
    request_.file = folder_ / "missing.toml";
    EXPECT_NE(refusal([&] { Pipeline::load(request_); }).find("missing.toml: there is no such file"),
              std::string::npos);
    request_.file = folder_;
    EXPECT_NE(refusal([&] { Pipeline::load(request_); }).find("this is not a file"), std::string::npos);
    request_.file = folder_ / "large.toml";
    EXPECT_NE(load_refusal(std::string(1u << 21, '#')).find("too large"), std::string::npos);
}

TEST_F(PipelineTest, survives_what_is_no_text) {
    EXPECT_NE(load_refusal(std::string("a\0b = 1", 7)).find("not TOML"), std::string::npos);
    EXPECT_NE(load_refusal("\xff\xfe").find("not TOML"), std::string::npos);
    EXPECT_EQ(load_refusal("a = 1\n[\x01"), "pipeline.toml:2:2: not TOML: a control character\n    2 | [?\n      |  ^");
    EXPECT_EQ(load("\xEF\xBB\xBF[kv]\r\nplugin = 'h2o'\r\n").text("kv.plugin"), "h2o");  // byte order mark, CRLF
    std::string deep = "a = ";
    deep.append(100000, '[');
    EXPECT_NE(load_refusal(deep).find("not TOML"), std::string::npos);
}

TEST_F(PipelineTest, reads_the_environment_of_the_process) {
    ::setenv("KVPLANE_KV_DTYPE", "f32", 1);
    const auto variables = PipelineRequest::process_environment();
    ::unsetenv("KVPLANE_KV_DTYPE");
    const auto found = variables.find("KVPLANE_KV_DTYPE");
    ASSERT_NE(found, variables.end());
    EXPECT_EQ(found->second, "f32");
}

TEST_F(PipelineTest, refuses_a_getter_of_another_type) {
    const Pipeline pipeline = Pipeline::load({});
    EXPECT_THROW(pipeline.integer("kv.plugin"), std::logic_error);
    EXPECT_THROW(pipeline.text("kv.plugn"), std::logic_error);
}
