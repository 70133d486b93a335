// One op in place of several: where the device has it, nowhere else, and with the same results.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string folder = std::string(KVPLANE_GOLDEN_DIR) + "/tiny";
const std::string name = "tiny-gqa-d64-f16";
constexpr const char* fused = "kvp.attention_input/1 kvp.feed_forward/1";
constexpr const char* parts = "kvp.rope/1 kvp.swiglu/1";  // what only the parts need

class Fusion : public testing::Test {
protected:
    ~Fusion() override { unsetenv("KVPLANE_TEST_REFUSED_OPS"); }

    static double error_without(const char* refused, std::vector<std::string> more = {}) {
        setenv("KVPLANE_TEST_REFUSED_OPS", refused, 1);
        const GoldenLogits golden(folder, name);
        more.push_back("device.plugin=" KVPLANE_REFUSING_DEVICE);
        TestEngine test(folder + "/" + name + ".gguf", exact(std::move(more)));
        const auto found = test.logits(golden.ids, static_cast<int64_t>(golden.ids.size()) / 2, 0);
        double most = 0;
        for (const auto& [position, row] : golden.rows) {
            most = std::max(most, largest_difference(row, found.at(position)));
        }
        return most;
    }
};

TEST_F(Fusion, is_not_needed_by_a_device_that_lacks_the_ops) {
    EXPECT_LE(error_without(fused), 1e-4);
}

TEST_F(Fusion, takes_the_place_of_the_parts) {
    EXPECT_LE(error_without(parts), 1e-4);
}

TEST_F(Fusion, leaves_apart_what_a_strategy_wants_to_see_in_between) {
    const std::vector<std::string> normed = {"kv.plugin=infinigen", "kv.infinigen.source=attn_input"};
    EXPECT_LE(error_without("kvp.attention_input/1", normed), 1e-4);
    try {
        error_without("kvp.rope/1", normed);
        FAIL() << "the engine opened";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("kvp.rope/1"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace kvplane::test
