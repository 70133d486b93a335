#include "model/tensor_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/expect_error.h"
#include "support/golden.h"

namespace kvplane {
namespace {

std::vector<std::byte> from_hex(const std::string& hex) {
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < hex.size(); i += 2) {
        bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
    }
    return bytes;
}

// Golden values: tests/reference/make_model_golden.py, from the Python package gguf.
TEST(TensorType, reads_the_blocks_of_every_readable_type) {
    for (const auto& golden : test::read_golden("blocks.json")) {
        const TensorTypeInfo* info = find_tensor_type(golden["type"].get<uint32_t>());
        ASSERT_NE(info, nullptr);
        SCOPED_TRACE(std::string(info->name));
        const auto bytes = from_hex(golden["bytes"].get<std::string>());
        const auto expected = golden["values"].get<std::vector<float>>();
        ASSERT_EQ(tensor_bytes(info->type, expected.size()), bytes.size());
        std::vector<float> values(expected.size());
        dequantize_row(info->type, bytes.data(), values.data(), values.size());
        for (size_t i = 0; i < values.size(); ++i) {
            EXPECT_EQ(values[i], expected[i]) << i;
            EXPECT_EQ(std::signbit(values[i]), std::signbit(expected[i])) << i;
        }
    }
}

TEST(TensorType, half_knows_infinities_and_nan) {
    EXPECT_EQ(half_to_float(0x7c00), INFINITY);
    EXPECT_EQ(half_to_float(0xfc00), -INFINITY);
    EXPECT_TRUE(std::isnan(half_to_float(0x7e00)));
    EXPECT_TRUE(std::isnan(half_to_float(0xfc01)));
}

TEST(TensorType, says_which_type_it_cannot_read_yet) {
    const std::vector<std::byte> block(144);
    std::vector<float> values(256);
    test::expect_error(ErrorKind::model,
                       {"q3_k", "not supported yet", "f32, f16, q4_0, q4_1, q8_0, q4_k, q5_k, q6_k, bf16"},
                       [&] { dequantize_row(TensorType::q3_k, block.data(), values.data(), values.size()); });
}

TEST(TensorType, refuses_a_row_that_ends_inside_a_block) {
    const std::vector<std::byte> block(40);
    std::vector<float> values(33);
    test::expect_error(ErrorKind::model, {"33", "q4_1"},
                       [&] { dequantize_row(TensorType::q4_1, block.data(), values.data(), values.size()); });
}

TEST(TensorType, sizes_of_whole_blocks_only_and_without_overflow) {
    EXPECT_EQ(tensor_bytes(TensorType::q4_1, 576 * 192), 576 * 192 / 32 * 20);
    EXPECT_EQ(tensor_bytes(TensorType::q6_k, 512), 420);
    EXPECT_EQ(tensor_bytes(TensorType::q4_1, 31), std::nullopt);
    EXPECT_EQ(tensor_bytes(TensorType::f32, uint64_t{1} << 62), std::nullopt);
}

TEST(TensorType, names_cross_the_abi_as_format_ids) {
    EXPECT_EQ(tensor_type_info(TensorType::q4_1).format, "gguf.q4_1/1");
    EXPECT_EQ(tensor_type_info(TensorType::f16).format, "f16");
    EXPECT_EQ(find_tensor_type(4), nullptr);
    EXPECT_EQ(withdrawn_tensor_type(4), "q4_2");
    EXPECT_EQ(withdrawn_tensor_type(3), "");
    EXPECT_EQ(find_tensor_type(1000), nullptr);
}

}  // namespace
}  // namespace kvplane
