#include <limits>

#include "unit/config/pipeline_fixture.h"

using namespace kvplane;

namespace {

std::vector<OptionSpec> infinigen_options() {
    OptionSpec alpha;
    alpha.path = "alpha";
    alpha.type = OptionType::real;
    alpha.default_value = 4.0;
    alpha.minimum = 0.0;
    alpha.doc = "threshold";
    OptionSpec policy;
    policy.path = "pool.policy";
    policy.type = OptionType::choice;
    policy.default_value = std::string("counter");
    policy.choices = {"fifo", "lru", "counter"};
    return {alpha, policy};
}

}  // namespace

TEST_F(PipelineTest, checks_a_plugin_table_against_the_plugins_own_options) {
    Pipeline pipeline = load("[kv]\nplugin = 'infinigen'\n[kv.infinigen]\nalpha = 2\npool.policy = 'lru'");
    pipeline.declare_plugin("kv", "infinigen", infinigen_options());
    pipeline.check_plugins();
    EXPECT_EQ(pipeline.real("kv.infinigen.alpha"), 2.0);
    EXPECT_EQ(pipeline.text("kv.infinigen.pool.policy"), "lru");
    EXPECT_EQ(to_string(pipeline.origin("kv.infinigen.alpha")), request_.file.string() + ":4:9");
}

TEST_F(PipelineTest, gives_plugin_options_the_same_precedence) {
    const std::string file = "[kv]\nplugin = 'infinigen'\n[kv.infinigen]\nalpha = 2";
    Pipeline by_environment = load(file, {}, {{"KVPLANE_KV_INFINIGEN_ALPHA", "3"}});
    by_environment.declare_plugin("kv", "infinigen", infinigen_options());
    by_environment.check_plugins();
    EXPECT_EQ(by_environment.real("kv.infinigen.alpha"), 3.0);
    EXPECT_TRUE(by_environment.warnings().empty());

    Pipeline by_override = load(file, {"kv.infinigen.alpha=inf"}, {{"KVPLANE_KV_INFINIGEN_ALPHA", "3"}});
    by_override.declare_plugin("kv", "infinigen", infinigen_options());
    by_override.check_plugins();
    EXPECT_EQ(by_override.real("kv.infinigen.alpha"), std::numeric_limits<double>::infinity());

    Pipeline by_default = load("[kv]\nplugin = 'infinigen'");
    by_default.declare_plugin("kv", "infinigen", infinigen_options());
    by_default.check_plugins();
    EXPECT_EQ(by_default.real("kv.infinigen.alpha"), 4.0);
}

TEST_F(PipelineTest, points_at_the_problems_of_a_plugin_table) {
    Pipeline pipeline =
        load("[kv]\nplugin = 'infinigen'\n[kv.infinigen]\naplha = 2\npool.policy = 'lfu'\n[kv.infinigen.pol]\na=1\nb=2",
             {"kv.infinigen.alpha=-1"});
    pipeline.declare_plugin("kv", "infinigen", infinigen_options());
    const std::string text = refusal([&] { pipeline.check_plugins(); });
    EXPECT_EQ(text.substr(0, text.find('\n')), "4 problems in the pipeline:") << text;
    EXPECT_NE(text.find("pipeline.toml:4:1: unknown key kv.infinigen.aplha"), std::string::npos) << text;
    EXPECT_NE(text.find("nearest: kv.infinigen.alpha"), std::string::npos) << text;
    EXPECT_NE(text.find("pipeline.toml:5:15: kv.infinigen.pool.policy cannot be \"lfu\""), std::string::npos) << text;
    EXPECT_NE(text.find("unknown table [kv.infinigen.pol]"), std::string::npos) << text;
    EXPECT_NE(text.find("kv.infinigen.alpha cannot be \"-1\""), std::string::npos) << text;
}

TEST_F(PipelineTest, refuses_the_table_of_a_plugin_that_nothing_names) {
    Pipeline pipeline = load("[kv]\nplugin = 'infinigen'\n[kv.infinigne]\nalpha = 2\nbeta = 3");
    pipeline.declare_plugin("kv", "infinigen", infinigen_options());
    EXPECT_EQ(refusal([&] { pipeline.check_plugins(); }),
              "pipeline.toml:3:5: [kv.infinigne] is for a plugin that this pipeline does not name (kv.plugin = "
              "\"infinigen\", kv.fallback = [])\n"
              "    3 | [kv.infinigne]\n"
              "      |     ^~~~~~~~~\n"
              "    allowed: options of kv.infinigen\n"
              "    nearest: kv.infinigen");
}

TEST_F(PipelineTest, leaves_options_alone_whose_plugin_was_overridden) {
    Pipeline pipeline =
        load("[kv]\nplugin = 'infinigen'\n[kv.infinigen]\nalpha = 'unread'",
             {"kv.plugin=dense", "kv.infinigen.pool.policy=lru"}, {{"KVPLANE_KV_INFINIGEN_ALPHA", "1"}});
    pipeline.declare_plugin("kv", "dense", {});
    pipeline.check_plugins();
    EXPECT_TRUE(pipeline.warnings().empty());
    const auto rows = pipeline.explain();
    ASSERT_GE(rows.size(), 2u);
    EXPECT_EQ(rows[rows.size() - 2].key, "kv.infinigen.alpha");
    EXPECT_EQ(rows[rows.size() - 2].value, "\"unread\"");
    EXPECT_EQ(rows[rows.size() - 1].key, "kv.infinigen.pool.policy");
    EXPECT_NE(rows[rows.size() - 1].doc.find("not read"), std::string::npos);
}

TEST_F(PipelineTest, leaves_options_of_a_fallback_alone_that_was_not_needed) {
    Pipeline pipeline = load("[kv]\nplugin = 'dense'\nfallback = ['window']\n[kv.window]\nsize = 4");
    pipeline.declare_plugin("kv", "dense", {});
    EXPECT_NO_THROW(pipeline.check_plugins());
}

TEST_F(PipelineTest, names_plugins_in_order_and_resolves_library_paths) {
    const Pipeline pipeline =
        load("[kv]\nplugin = 'lib/mine.so'\nfallback = ['dense', '/opt/other.so']", {"transfer.plugin=./fault.so"});
    const auto plugins = pipeline.plugins("kv");
    ASSERT_EQ(plugins.size(), 3u);
    EXPECT_EQ(plugins[0].name, "lib/mine.so");
    EXPECT_EQ(plugins[0].path, folder_ / "lib" / "mine.so");
    EXPECT_EQ(plugins[1].name, "dense");
    EXPECT_TRUE(plugins[1].path.empty());
    EXPECT_EQ(plugins[2].path, "/opt/other.so");
    EXPECT_EQ(pipeline.plugins("transfer")[0].path, "fault.so");
    EXPECT_EQ(pipeline.plugins("device")[0].name, "cpu");
}

TEST_F(PipelineTest, knows_a_plugin_named_by_path_under_its_id) {
    const std::string file = "[kv]\nplugin = './mine.so'\n[kv.infinigen]\nalpha = 9";
    Pipeline pipeline = load(file);
    pipeline.declare_plugin("kv", "infinigen", infinigen_options());
    pipeline.check_plugins();
    EXPECT_EQ(pipeline.real("kv.infinigen.alpha"), 9.0);

    Pipeline overridden = load(file, {"kv.plugin=dense"});
    overridden.declare_plugin("kv", "dense", {});
    EXPECT_NO_THROW(overridden.check_plugins());

    Pipeline mistyped = load("[kv]\nplugin = './mine.so'\n[kv.infinigne]\nalpha = 9");
    mistyped.declare_plugin("kv", "infinigen", infinigen_options());
    EXPECT_NE(refusal([&] { mistyped.check_plugins(); }).find("nearest: kv.infinigen"), std::string::npos);
}

TEST_F(PipelineTest, refuses_a_value_in_place_of_a_plugin_table) {
    EXPECT_NE(load_refusal("[kv]\ninfinigen = 3").find("unknown key kv.infinigen"), std::string::npos);
}
