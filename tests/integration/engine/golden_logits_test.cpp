// The whole way from a model file to logits, against PyTorch (tests/reference/torch_logits.py).
#include <gtest/gtest.h>

#include <cmath>

#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string folder = std::string(KVPLANE_GOLDEN_DIR) + "/tiny";

class GoldenModel : public testing::TestWithParam<const char*> {};

std::map<int64_t, std::vector<float>> only(const std::map<int64_t, std::vector<float>>& all,
                                           const GoldenLogits& golden) {
    std::map<int64_t, std::vector<float>> kept;
    for (const auto& [position, row] : golden.rows) kept[position] = all.at(position);
    return kept;
}

TEST_P(GoldenModel, gives_pytorchs_logits_in_f32) {
    const GoldenLogits golden(folder, GetParam());
    TestEngine test(folder + "/" + GetParam() + ".gguf", exact());
    const auto n = static_cast<int64_t>(golden.ids.size());
    EXPECT_LE(largest_difference(only(test.logits(golden.ids, n, 0), golden), golden.rows), 1e-4);
}

TEST_P(GoldenModel, gives_them_when_decoding_token_by_token) {
    const GoldenLogits golden(folder, GetParam());
    TestEngine test(folder + "/" + GetParam() + ".gguf", exact());
    EXPECT_LE(largest_difference(only(test.logits(golden.ids, 1, 0), golden), golden.rows), 1e-4);
}

TEST_P(GoldenModel, stays_near_with_int8_activations_and_f16_rows) {
    const GoldenLogits golden(folder, GetParam());
    TestEngine test(folder + "/" + GetParam() + ".gguf", {"device.threads=2"});
    const auto found = only(test.logits(golden.ids, 100, 0), golden);
    double error = 0, size = 0;
    for (const auto& [position, row] : golden.rows) {
        for (size_t i = 0; i < row.size(); ++i) {
            error += std::pow(double{row[i]} - double{found.at(position)[i]}, 2);
            size += std::pow(double{row[i]}, 2);
        }
    }
    // int8 keeps 127 steps of the largest of 32 activations: under 1 % of the signal a layer, some layers deep. Where
    // attention multiplies in bf16, each operand has 8 bits: about as much again for scores of these models' size.
    EXPECT_LE(std::sqrt(error / size), 0.035);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModel,
                         testing::Values("tiny-mha-f32", "tiny-gqa-f32", "tiny-gqa-d64-f16", "tiny-bf16", "tiny-q8_0",
                                         "tiny-q4_0", "tiny-q4_1", "tiny-q4_k", "tiny-q5_k", "tiny-q6_k",
                                         "tiny-rope-linear-f16", "tiny-rope-llama3-f16", "tiny-untied-f16"),
                         [](const auto& info) {
                             std::string name = info.param;
                             for (char& c : name) c = c == '-' ? '_' : c;
                             return name;
                         });

}  // namespace
}  // namespace kvplane::test
