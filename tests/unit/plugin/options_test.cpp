#include "plugin/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "plugin/status.h"
#include "support/temp_folder.h"

namespace kvplane::test {

namespace {

kvp_option option(uint32_t type, std::string_view key, std::string_view value, double minimum = 0, double maximum = 0,
                  std::string_view choices = "") {
    return {KVP_HEAD(kvp_option), to_kvp_str(key),  type, 0, to_kvp_str(value), minimum, maximum,
            to_kvp_str(choices),  to_kvp_str("doc")};
}

std::vector<OptionSpec> read(std::vector<kvp_option> options) {
    std::vector<const kvp_option*> pointers;
    for (const kvp_option& one : options) pointers.push_back(&one);
    kvp_plugin_descriptor descriptor = {};
    descriptor.n_options = static_cast<uint32_t>(pointers.size());
    descriptor.options = pointers.data();
    return read_options(descriptor);
}

std::string reason_for(const kvp_option& one) {
    return message_of([&] { read({one}); });
}

}  // namespace

TEST(PluginOptions, become_specs_of_the_pipeline) {
    const auto specs = read({option(KVP_OPTION_BOOL, "on", "true"), option(KVP_OPTION_I64, "n", "-3", -10, 10),
                             option(KVP_OPTION_F64, "alpha", "inf", 0, std::numeric_limits<double>::infinity()),
                             option(KVP_OPTION_STR, "mode", "b", 0, 0, "a|b|c"), option(KVP_OPTION_STR, "name", "")});
    ASSERT_EQ(specs.size(), 5u);
    EXPECT_EQ(specs[0].type, OptionType::boolean);
    EXPECT_EQ(specs[0].default_value, OptionValue(true));
    EXPECT_EQ(specs[1].type, OptionType::integer);
    EXPECT_EQ(specs[1].default_value, OptionValue(int64_t(-3)));
    EXPECT_EQ(specs[1].minimum, -10);
    EXPECT_EQ(specs[1].maximum, 10);
    EXPECT_EQ(specs[1].doc, "doc");
    EXPECT_EQ(specs[2].type, OptionType::real);
    EXPECT_EQ(specs[2].default_value, OptionValue(std::numeric_limits<double>::infinity()));
    EXPECT_EQ(specs[3].type, OptionType::choice);
    EXPECT_EQ(specs[3].choices, (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(specs[4].type, OptionType::string);
    EXPECT_EQ(specs[4].default_value, OptionValue(std::string()));
}

TEST(PluginOptions, without_limits_take_every_number) {
    const auto specs = read({option(KVP_OPTION_I64, "n", "-3")});
    EXPECT_EQ(specs[0].minimum, -std::numeric_limits<double>::infinity());
    EXPECT_EQ(specs[0].maximum, std::numeric_limits<double>::infinity());
}

TEST(PluginOptions, are_refused_when_they_are_not_sane) {
    EXPECT_EQ(reason_for(option(KVP_OPTION_I64, "Bad.Key", "1")),
              "declares an option whose key \"Bad.Key\" is not of a-z, 0-9 and '_'");
    EXPECT_EQ(reason_for(option(9, "n", "1")), "option \"n\" has the unknown type 9");
    EXPECT_EQ(reason_for(option(KVP_OPTION_BOOL, "on", "yes")),
              "option \"on\" has the default \"yes\", not true or false");
    EXPECT_EQ(reason_for(option(KVP_OPTION_I64, "n", "3x")), "option \"n\" has the default \"3x\", no such number");
    EXPECT_EQ(reason_for(option(KVP_OPTION_I64, "n", "")), "option \"n\" has the default \"\", no such number");
    EXPECT_EQ(reason_for(option(KVP_OPTION_I64, "n", "3", 9, 1)), "option \"n\" has a minimum above its maximum");
    EXPECT_EQ(reason_for(option(KVP_OPTION_F64, "x", "3", std::nan(""), 9)),
              "option \"x\" has a minimum above its maximum");
    EXPECT_TRUE(reason_for(option(KVP_OPTION_STR, "mode", "z", 0, 0, "a|b"))
                    .starts_with("option \"mode\" has a default that breaks its own rule: "));
    kvp_option cut = option(KVP_OPTION_I64, "n", "3");
    cut.head.struct_size = 24;
    EXPECT_EQ(reason_for(cut), "declares option 0 as NULL or cut short");
}

TEST(PluginOptions, merge_the_pipeline_s_values_over_the_defaults) {
    const auto specs = read({option(KVP_OPTION_I64, "n", "3", 1, 8), option(KVP_OPTION_F64, "x", "0.5", 0, 1)});
    EXPECT_EQ(merge_options(specs, {{"n", int64_t(7)}}), (OptionValues{{"n", int64_t(7)}, {"x", 0.5}}));
    EXPECT_EQ(merge_options(specs, {{"threads", int64_t(2)}}),
              (OptionValues{{"n", int64_t(3)}, {"threads", int64_t(2)}, {"x", 0.5}}));
}

TEST(PluginOptions, reject_values_that_do_not_fit) {
    const auto specs = read({option(KVP_OPTION_I64, "alpha", "3", 1, 8)});
    EXPECT_EQ(message_of([&] {
                  merge_options(specs, {{"alhpa", int64_t(3)}});
              }),
              "has no option \"alhpa\"; did you mean \"alpha\"?");
    EXPECT_TRUE(message_of([&] { merge_options(specs, {{"alpha", true}}); }).starts_with("option \"alpha\" takes "));
    EXPECT_TRUE(message_of([&] {
                    merge_options(specs, {{"alpha", int64_t(9)}});
                }).starts_with("option \"alpha\" cannot be 9: "));
}

TEST(PluginOptions, come_from_the_plugin_s_table_of_the_pipeline) {
    const auto specs =
        read({option(KVP_OPTION_I64, "sinks", "4", 0, 99), option(KVP_OPTION_F64, "alpha", "0.5", 0, 9)});
    PipelineRequest request;
    request.file = "/p.toml";
    Pipeline pipeline = Pipeline::parse("[kv]\nplugin = \"window\"\n[kv.window]\nsinks = 16\n", request);
    pipeline.declare_plugin("kv", "window", specs);
    pipeline.check_plugins();
    EXPECT_EQ(table_values(pipeline, "kv.window", specs), (OptionValues{{"alpha", 0.5}, {"sinks", int64_t(16)}}));
}

}  // namespace kvplane::test
