#include "levels.h"

namespace kvplane::test {
namespace {

class CpuLinear : public CpuDevice {
protected:
    // Runs one linear of weights of these formats and heights over `rows` rows; checks every output.
    void check(const std::vector<std::string>& formats, const std::vector<int64_t>& outputs, int64_t width,
               int64_t rows, bool accumulate, bool exact) {
        auto attributes = structure<kvp_linear_attributes>();
        attributes.accumulate = accumulate;
        attributes.exact_f32 = exact;
        std::vector<RandomWeights> weights;
        std::vector<Tensor> tensors;
        std::vector<const kvp_tensor*> constants;
        for (size_t i = 0; i < outputs.size(); ++i) {
            weights.push_back(random_weights(formats[i], outputs[i], width, static_cast<uint32_t>(i + 1)));
        }
        for (const auto& weight : weights) tensors.push_back(weight.tensor());
        for (const auto& tensor : tensors) constants.push_back(tensor.get());
        const auto plan = device().prepare("kvp.linear/1", &attributes, constants);

        const auto x = random_floats(static_cast<size_t>(rows * width), 99);
        std::vector<std::vector<float>> out;
        std::vector<Tensor> operands;
        operands.push_back(Tensor::f32(x, {rows, width}));
        for (const int64_t output : outputs) out.push_back(random_floats(static_cast<size_t>(rows * output), 7));
        const auto before = out;
        for (size_t i = 0; i < outputs.size(); ++i) operands.push_back(Tensor::f32(out[i], {rows, outputs[i]}));
        std::vector<const kvp_tensor*> pointers;
        for (const auto& operand : operands) pointers.push_back(operand.get());
        ASSERT_EQ(device().table().op_enqueue(device().queue(), plan.get(), pointers.data(),
                                              static_cast<uint32_t>(pointers.size()), nullptr),
                  KVP_OK)
            << device().error();
        for (size_t i = 0; i < outputs.size(); ++i)
            expect_products(weights[i], x, rows, exact, accumulate ? &before[i] : nullptr, out[i]);
    }

    // int8 activations are off by half a step at most, a step being the block's largest value / 127; sums of f32 add a
    // rounding of 2^-24 for each of their terms at most.
    static void expect_products(const RandomWeights& w, const std::vector<float>& x, int64_t rows, bool exact,
                                const std::vector<float>* before, const std::vector<float>& out) {
        const bool quantised = !exact && w.format[0] == 'q';
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = 0; column < w.rows; ++column) {
                double sum = 0;
                double absolute = 0;
                double step_error = 0;
                for (int64_t block = 0; block * 32 < w.columns; ++block) {
                    double largest = 0;
                    double weight = 0;
                    for (int64_t i = block * 32; i < std::min(w.columns, block * 32 + 32); ++i) {
                        const double a = x[static_cast<size_t>(row * w.columns + i)];
                        const double b = w.values[static_cast<size_t>(column * w.columns + i)];
                        sum += a * b;
                        absolute += std::abs(a * b);
                        largest = std::max(largest, std::abs(a));
                        weight += std::abs(b);
                    }
                    step_error += 0.5001 * largest / 127 * weight;
                }
                const auto at = static_cast<size_t>(row * w.rows + column);
                if (before != nullptr) sum += (*before)[at];
                double bound = static_cast<double>(w.columns + 8) * std::ldexp(absolute + std::abs(sum), -24);
                if (quantised) bound += step_error;
                // Q4_1 and Q4_0 split into a product and a minimum that cancel; 1e-6 covers their separate roundings.
                if (quantised) bound += 1e-6 * static_cast<double>(w.columns);
                ASSERT_NEAR(out[at], sum, bound) << w.format << " row " << row << " column " << column;
            }
        }
    }
};

TEST_P(CpuLinear, multiplies_every_format_at_any_number_of_rows) {
    for (const std::string format : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"}) {
        for (const int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33}) {
            check({format}, {40}, 96, rows, false, false);
        }
    }
}

TEST_P(CpuLinear, multiplies_k_quants_at_any_number_of_rows) {
    for (const std::string format : {"q4_k", "q5_k", "q6_k"}) {
        for (const int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33}) {
            check({format}, {40}, 512, rows, false, false);
        }
    }
}

TEST_P(CpuLinear, multiplies_outputs_of_any_height) {
    for (const std::string format : {"f32", "q8_0", "q4_1"}) {
        for (const int64_t outputs : {1, 3, 4, 15, 16, 17, 31, 32, 33, 100}) {
            check({format}, {outputs}, 64, 1, false, false);
            check({format}, {outputs}, 32, 6, false, false);
        }
    }
    for (const std::string format : {"q4_k", "q5_k", "q6_k"}) {
        for (const int64_t outputs : {1, 3, 15, 17, 33}) {
            check({format}, {outputs}, 768, 1, false, false);
            check({format}, {outputs}, 256, 6, false, false);
        }
    }
}

TEST_P(CpuLinear, shares_one_input_among_weights_of_several_formats) {
    check({"q4_1", "q8_0", "q4_0", "f16"}, {48, 20, 33, 7}, 160, 1, false, false);
    check({"q4_1", "q8_0", "q4_0", "f16"}, {48, 20, 33, 7}, 160, 11, false, false);
    check({"q4_k", "q6_k", "q5_k", "q8_0"}, {48, 20, 33, 7}, 512, 1, false, false);
    check({"q4_k", "q6_k", "q5_k", "q8_0"}, {48, 20, 33, 7}, 512, 11, false, false);
}

TEST_P(CpuLinear, accumulates_into_out) {
    check({"q4_1"}, {37}, 128, 1, true, false);
    check({"q8_0", "f32"}, {37, 5}, 128, 10, true, false);
    check({"q4_k", "q6_k"}, {37, 5}, 256, 1, true, false);
    check({"q5_k"}, {37}, 256, 10, true, false);
}

TEST_P(CpuLinear, multiplies_in_f32_when_asked_to) {
    for (const std::string format : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"})
        check({format}, {19}, 96, 5, false, true);
    for (const std::string format : {"q4_k", "q5_k", "q6_k"}) check({format}, {19}, 256, 5, false, true);
}

TEST_P(CpuLinear, cuts_many_rows_into_parts) {
    check({"q4_1", "f32"}, {18, 3}, 32, 600, false, false);
}

TEST_P(CpuLinear, takes_float_weights_of_any_width) {
    for (const int64_t width : {1, 5, 33}) {
        check({"f32"}, {17}, width, 1, false, false);
        check({"f16"}, {17}, width, 3, false, false);
    }
}

TEST_P(CpuLinear, keeps_extreme_quantised_values_in_range) {  // -128 and 127 with activations at full scale
    auto w = random_weights("q8_0", 16, 64, 3);
    for (int64_t block = 0; block < 32; ++block) {
        for (int64_t i = 0; i < 32; ++i) {
            const auto q = static_cast<int8_t>((block & 1) != 0 ? -128 : 127);
            w.bytes[static_cast<size_t>(block * 34 + 2 + i)] = static_cast<uint8_t>(q);
            uint16_t scale;
            std::memcpy(&scale, &w.bytes[static_cast<size_t>(block * 34)], 2);
            w.values[static_cast<size_t>(block * 32 + i)] = half_value(scale) * q;
        }
    }
    const std::vector<float> x(64, -3.0f);
    std::vector<float> out(16);
    const auto attributes = structure<kvp_linear_attributes>();
    const Tensor weight = w.tensor();
    const auto plan = device().prepare("kvp.linear/1", &attributes, {weight.get()});
    device().run(plan, {Tensor::f32(x, {1, 64}), Tensor::f32(out, {1, 16})});
    expect_products(w, x, 1, false, nullptr, out);
}

TEST_P(CpuLinear, keeps_the_largest_k_quants_in_range) {
    for (const std::string format : {"q4_k", "q5_k", "q6_k"}) {
        RandomWeights w{format, 16, 256, {}, {}};
        std::mt19937 random(4);
        for (int row = 0; row < 16; ++row) {
            KBlockNumbers numbers = random_k_numbers(format, random);
            for (int& quant : numbers.quants) quant = row % 2 == 0 ? (1 << (format[1] - '0')) - 1 : 0;
            for (int& scale : numbers.scales) scale = format == "q6_k" ? -128 : 63;
            append_k_block(format, numbers, w.bytes, w.values);
        }
        for (const float value : {-3.0f, 3.0f}) {
            const std::vector<float> x(2 * 256, value);
            std::vector<float> out(2 * 16);
            const auto attributes = structure<kvp_linear_attributes>();
            const Tensor weight = w.tensor();
            const auto plan = device().prepare("kvp.linear/1", &attributes, {weight.get()});
            device().run(plan, {Tensor::f32(x, {2, 256}), Tensor::f32(out, {2, 16})});
            expect_products(w, x, 2, false, nullptr, out);
        }
    }
}

KVPLANE_ALL_LEVELS(CpuLinear);

TEST(CpuLinearChecks, refuses_what_does_not_fit_and_says_why) {
    const DeviceHarness device(KVPLANE_CPU_PLUGIN, 1);
    const auto attributes = structure<kvp_linear_attributes>();
    auto answer = structure<kvp_op_answer>();

    const std::vector<uint8_t> bytes(64 * 18);
    const Tensor unknown = Tensor::blocks(bytes, 32, "gguf.q5_0/1", 32);
    EXPECT_EQ(device.support("kvp.linear/1", &attributes, {unknown.get()}, &answer), KVP_UNSUPPORTED);
    EXPECT_NE(std::string(answer.reason).find("gguf.q5_0/1"), std::string::npos) << answer.reason;

    const Tensor torn = Tensor::blocks(bytes, 32, "gguf.q4_0/1", 96);
    EXPECT_EQ(device.support("kvp.linear/1", &attributes, {torn.get()}, &answer), KVP_UNSUPPORTED);
    EXPECT_NE(std::string(answer.reason), "");

    const std::vector<uint8_t> half_block(16 * 144);  // rows of 128 elements: half a super-block
    const Tensor halved = Tensor::blocks(half_block, 16, "gguf.q4_k/1", 128);
    EXPECT_EQ(device.support("kvp.linear/1", &attributes, {halved.get()}, &answer), KVP_UNSUPPORTED);
    EXPECT_NE(std::string(answer.reason).find("blocks of 256"), std::string::npos) << answer.reason;

    const auto weights = random_weights("q4_0", 32, 64, 1);
    const Tensor weight = weights.tensor();
    EXPECT_EQ(device.support("kvp.linear/1", &attributes, {weight.get()}, &answer), KVP_OK);
    EXPECT_GE(answer.packed_bytes, 32u * 2 * 18);

    const auto plan = device.prepare("kvp.linear/1", &attributes, {weight.get()});
    const std::vector<float> x(2 * 32), out(2 * 32);
    EXPECT_EQ(device.try_run(plan, {Tensor::f32(x, {2, 32}), Tensor::f32(out, {2, 32})}), KVP_ERROR_INVALID);
    EXPECT_EQ(device.try_run(plan, {Tensor::f32(x, {1, 64})}), KVP_ERROR_INVALID);
    EXPECT_EQ(device.try_run(plan, {Tensor::f32(x, {1, 64}), Tensor::f32(out, {2, 32})}), KVP_ERROR_INVALID);
    EXPECT_NE(device.error(), "");
    EXPECT_EQ(device.try_run(plan, {Tensor::f32(x, {0, 64}), Tensor::f32(out, {0, 32})}), KVP_OK) << device.error();
}

}  // namespace
}  // namespace kvplane::test
