#include "plugin/host.h"

#include <gtest/gtest.h>

#include <thread>

#include "plugin/status.h"

namespace kvplane::test {

namespace {

void set_error(const PluginHost& host, std::string_view text) {
    host.table()->set_error(host.table()->context, to_kvp_str(text));
}

}  // namespace

TEST(PluginHost, gives_the_error_text_once_and_to_its_own_thread_and_plugin_only) {
    PluginHost host("one");
    PluginHost other("two");
    set_error(host, "the disk is full");
    std::thread([&] { EXPECT_EQ(host.take_error(), ""); }).join();
    EXPECT_EQ(other.take_error(), "");
    EXPECT_EQ(host.take_error(), "the disk is full");
    EXPECT_EQ(host.take_error(), "");
}

TEST(PluginHost, takes_a_text_that_is_not_there) {
    PluginHost host("one");
    host.table()->set_error(host.table()->context, {nullptr, 9});
    host.table()->log(host.table()->context, KVP_LOG_TRACE, {nullptr, 9});
    EXPECT_EQ(host.take_error(), "");
}

TEST(PluginHost, answers_options_by_key_and_type) {
    PluginHost host("one");
    host.set_options({{"on", true}, {"n", int64_t(-5)}, {"x", 0.25}, {"mode", std::string("fast")}});
    const kvp_host& table = *host.table();
    uint32_t on = 0;
    int64_t n = 0;
    double x = 0;
    kvp_str mode{};
    EXPECT_EQ(table.option_bool(table.context, to_kvp_str("on"), &on), KVP_OK);
    EXPECT_EQ(table.option_i64(table.context, to_kvp_str("n"), &n), KVP_OK);
    EXPECT_EQ(table.option_f64(table.context, to_kvp_str("x"), &x), KVP_OK);
    EXPECT_EQ(table.option_str(table.context, to_kvp_str("mode"), &mode), KVP_OK);
    EXPECT_EQ(on, 1u);
    EXPECT_EQ(n, -5);
    EXPECT_EQ(x, 0.25);
    EXPECT_EQ(to_string(mode), "fast");

    EXPECT_EQ(table.option_i64(table.context, to_kvp_str("x"), &n), KVP_NOT_FOUND);
    EXPECT_EQ(table.option_bool(table.context, to_kvp_str("of"), &on), KVP_NOT_FOUND);
    EXPECT_EQ(table.option_f64(table.context, {nullptr, 0}, &x), KVP_NOT_FOUND);
    EXPECT_EQ(n, -5);
}

TEST(PluginHost, gives_memory_as_it_was_asked_for) {
    PluginHost host("one");
    const kvp_host& table = *host.table();
    for (const uint64_t alignment : {1u, 2u, 8u, 64u, 4096u}) {
        for (const uint64_t n_bytes : {0u, 1u, 63u, 4097u}) {
            void* const memory = table.alloc(table.context, n_bytes, alignment);
            ASSERT_NE(memory, nullptr);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0u);
            table.free(table.context, memory, n_bytes, alignment);
        }
    }
    EXPECT_EQ(table.alloc(table.context, 64, 0), nullptr);
    EXPECT_EQ(table.alloc(table.context, 64, 24), nullptr);
    EXPECT_EQ(table.alloc(table.context, UINT64_MAX, 64), nullptr);
}

TEST(PluginHost, tells_plugins_that_the_process_ends) {
    PluginHost host("one");
    EXPECT_EQ(host.table()->is_stopping(host.table()->context), 0u);
    set_stopping(true);
    EXPECT_EQ(host.table()->is_stopping(host.table()->context), 1u);
    set_stopping(false);
}

TEST(PluginHost, has_a_clock_that_never_goes_back_and_no_extensions) {
    PluginHost host("one");
    const kvp_host& table = *host.table();
    const uint64_t first = table.now_ns(table.context);
    EXPECT_GE(table.now_ns(table.context), first);
    EXPECT_EQ(table.get_extension(table.context, to_kvp_str("kvp.metrics/1")), nullptr);
}

}  // namespace kvplane::test
