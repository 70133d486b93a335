#include "config/schema.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

using namespace kvplane;

namespace {

OptionSpec integer_option(std::string path, int64_t value, double minimum, double maximum) {
    OptionSpec spec;
    spec.path = std::move(path);
    spec.type = OptionType::integer;
    spec.default_value = value;
    spec.minimum = minimum;
    spec.maximum = maximum;
    return spec;
}

std::string refusal(std::vector<OptionSpec> specs) {
    Schema schema;
    try {
        schema.add("kv.mine", std::move(specs));
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::plugin);
        return error.what();
    }
    return "accepted";
}

}  // namespace

TEST(Schema, gives_each_core_key_a_line_of_text_and_a_variable_of_its_own) {
    std::set<std::string> names;
    for (const auto& key : core_schema().keys()) {
        EXPECT_FALSE(core_schema().find(key)->doc.empty()) << key;
        EXPECT_EQ(core_schema().find(key)->doc.find('\n'), std::string::npos) << key;
        EXPECT_TRUE(names.insert(environment_name(key)).second) << key;
    }
}

TEST(Schema, derives_the_name_of_the_variable) {
    EXPECT_EQ(environment_name("tiers.device.kv_bytes"), "KVPLANE_TIERS_DEVICE_KV_BYTES");
    EXPECT_EQ(environment_name("kv.my-plugin.x2"), "KVPLANE_KV_MY_PLUGIN_X2");
}

TEST(Schema, says_what_is_allowed) {
    EXPECT_EQ(allowed_text(*core_schema().find("schedule.chunk_tokens")), "an integer from 16 to 8192 (tokens)");
    EXPECT_EQ(allowed_text(*core_schema().find("tiers.host.access")), "one of auto, direct, copy");
    EXPECT_EQ(allowed_text(*core_schema().find("memory.resident_share")), "a number from 0 to 1");
    EXPECT_EQ(allowed_text(integer_option("a", 0, 0, 100000)), "an integer from 0 to 100000");
    OptionSpec open = integer_option("a", 0, 0, 1);
    open.maximum = std::numeric_limits<double>::infinity();
    EXPECT_EQ(allowed_text(open), "an integer from 0");
}

TEST(Schema, includes_both_ends_of_a_range_and_never_takes_nan) {
    const OptionSpec& share = *core_schema().find("memory.resident_share");
    EXPECT_EQ(reject_reason(share, 0.0), "");
    EXPECT_EQ(reject_reason(share, 1.0), "");
    EXPECT_NE(reject_reason(share, 1.0001), "");
    OptionSpec unbounded = share;
    unbounded.minimum = -std::numeric_limits<double>::infinity();
    unbounded.maximum = std::numeric_limits<double>::infinity();
    EXPECT_EQ(reject_reason(unbounded, std::numeric_limits<double>::infinity()), "");
    EXPECT_NE(reject_reason(unbounded, std::numeric_limits<double>::quiet_NaN()), "");
}

TEST(Schema, takes_auto_where_it_is_declared_alone) {
    OptionSpec size;
    size.type = OptionType::size;
    size.default_value = Size{0};
    EXPECT_NE(reject_reason(size, Size{}), "");
    size.accepts_auto = true;
    EXPECT_EQ(reject_reason(size, Size{}), "");
}

TEST(Schema, takes_powers_of_two_for_the_page) {
    const OptionSpec& page = *core_schema().find("memory.page_tokens");
    for (const int64_t good : {4, 8, 16, 32, 64, 128, 256}) EXPECT_EQ(reject_reason(page, good), "") << good;
    for (const int64_t bad : {0, 1, 2, 3, 48, 65, 512}) EXPECT_NE(reject_reason(page, bad), "") << bad;
}

TEST(Schema, writes_values_as_toml) {
    EXPECT_EQ(to_string(OptionValue(true)), "true");
    EXPECT_EQ(to_string(OptionValue(int64_t{-3})), "-3");
    EXPECT_EQ(to_string(OptionValue(100000.0)), "100000.0");
    EXPECT_EQ(to_string(OptionValue(0.1)), "0.1");
    EXPECT_EQ(to_string(OptionValue(1e300)), "1e+300");
    EXPECT_EQ(to_string(OptionValue(std::numeric_limits<double>::infinity())), "inf");
    EXPECT_EQ(to_string(OptionValue(Size{4194304})), "4194304");
    EXPECT_EQ(to_string(OptionValue(Size{})), "auto");
    EXPECT_EQ(to_string(OptionValue(std::string("a\"b\\"))), "\"a\\\"b\\\\\"");
    EXPECT_EQ(to_string(OptionValue(std::vector<std::string>{"a", "b"})), "[\"a\", \"b\"]");
}

TEST(Schema, refuses_options_that_a_plugin_declares_wrongly) {
    EXPECT_NE(refusal({integer_option("Alpha", 1, 0, 9)}).find("lower-case"), std::string::npos);
    EXPECT_NE(refusal({integer_option("", 1, 0, 9)}).find("lower-case"), std::string::npos);
    EXPECT_NE(refusal({integer_option("a", 1, 0, 9), integer_option("a", 1, 0, 9)}).find("twice"), std::string::npos);
    EXPECT_NE(refusal({integer_option("a", 10, 0, 9)}).find("default that it does not allow"), std::string::npos);
    OptionSpec wrong = integer_option("a", 1, 0, 9);
    wrong.default_value = std::string("1");
    EXPECT_NE(refusal({wrong}).find("another type"), std::string::npos);
}

TEST(Schema, knows_tables_and_their_keys) {
    EXPECT_TRUE(core_schema().has_table("tiers"));
    EXPECT_TRUE(core_schema().has_table("tiers.host"));
    EXPECT_FALSE(core_schema().has_table("tier"));
    EXPECT_FALSE(core_schema().has_table("kv.plugin"));
    EXPECT_EQ(core_schema().keys_in("tiers.host"),
              (std::vector<std::string>{"tiers.host.kv_bytes", "tiers.host.access"}));
    EXPECT_TRUE(core_schema().keys_in("tiers").empty());
}
