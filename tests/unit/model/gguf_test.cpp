#include "model/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>

#include "model/gguf_value.h"
#include "support/expect_error.h"
#include "support/gguf_builder.h"

namespace kvplane {
namespace {

using test::Bytes;
using test::GgufBuilder;

class Gguf : public ::testing::Test {
protected:
    GgufFile parse(const GgufBuilder& builder) {
        bytes_ = builder.build();
        return GgufFile::parse(bytes_, "test.gguf");
    }
    Bytes bytes_;
};

GgufBuilder numbers() {
    GgufBuilder builder;
    builder.value("u8", test::gguf_u8, uint8_t{200})
        .value("i8", test::gguf_i8, int8_t{-100})
        .value("u16", test::gguf_u16, uint16_t{60000})
        .value("i16", test::gguf_i16, int16_t{-30000})
        .value("u32", test::gguf_u32, uint32_t{4000000000})
        .value("i32", test::gguf_i32, int32_t{-2000000000})
        .value("u64", test::gguf_u64, uint64_t{1} << 63)
        .value("i64", test::gguf_i64, int64_t{7})
        .value("f32", test::gguf_f32, 1.5f)
        .value("f64", test::gguf_f64, 0.1)
        .boolean("yes", true)
        .boolean("no", false)
        .string("text", "caf\u00e9")
        .string_array("texts", {"a", "", "bc"})
        .array<int16_t>("i16s", test::gguf_i16, {3, 4})
        .array<float>("f32s", test::gguf_f32, {0.5f, 2.0f})
        .array<uint8_t>("u8s", test::gguf_u8, {9});
    return builder;
}

TEST_F(Gguf, reads_every_type_of_value) {
    const GgufFile file = parse(numbers());
    EXPECT_EQ(file.entries().size(), 17u);
    EXPECT_EQ(file.get_u32("u8"), 200u);
    EXPECT_EQ(file.get_i32("i8"), -100);
    EXPECT_EQ(file.get_u32("u16"), 60000u);
    EXPECT_EQ(file.get_i32("i16"), -30000);
    EXPECT_EQ(file.get_u32("u32"), 4000000000u);
    EXPECT_EQ(file.get_i32("i32"), -2000000000);
    EXPECT_EQ(file.get_u64("u64"), uint64_t{1} << 63);
    EXPECT_EQ(file.get_u32("i64"), 7u);
    EXPECT_EQ(file.get_f32("f32"), 1.5f);
    EXPECT_EQ(file.get_f32("f64"), 0.1f);
    EXPECT_TRUE(file.get_bool("yes"));
    EXPECT_FALSE(file.get_bool("no"));
    EXPECT_EQ(file.get_string("text"), "caf\u00e9");
    EXPECT_EQ(file.get_string_array("texts"), (std::vector<std::string_view>{"a", "", "bc"}));
    EXPECT_EQ(file.get_i32_array("i16s"), (std::vector<int32_t>{3, 4}));
    EXPECT_EQ(file.find_u32_array("u8s"), (std::vector<uint32_t>{9}));
    EXPECT_EQ(file.get_f32_array("f32s"), (std::vector<float>{0.5f, 2.0f}));
    EXPECT_EQ(file.find_u32("absent"), std::nullopt);
    EXPECT_EQ(file.find_string_array("absent"), std::nullopt);
}

TEST_F(Gguf, refuses_to_read_a_value_as_another_type) {
    const GgufFile file = parse(numbers());
    const auto refused = [](const std::vector<std::string>& parts, auto read) {
        test::expect_error(ErrorKind::model, parts, read);
    };
    refused({"test.gguf", "'absent'", "missing"}, [&] { file.get_u32("absent"); });
    refused({"'text'", "string", "expected an integer"}, [&] { file.get_u32("text"); });
    refused({"'yes'", "bool", "expected an integer"}, [&] { file.get_u32("yes"); });
    refused({"'f32'", "f32", "expected an integer"}, [&] { file.get_u32("f32"); });
    refused({"'u32'", "u32", "expected f32"}, [&] { file.get_f32("u32"); });
    refused({"'u8'", "u8", "expected bool"}, [&] { file.get_bool("u8"); });
    refused({"'u8'", "u8", "expected string"}, [&] { file.get_string("u8"); });
    refused({"'i16s'", "array of i16", "expected an integer"}, [&] { file.get_u32("i16s"); });
    refused({"'f32s'", "array of f32", "expected f32"}, [&] { file.get_f32("f32s"); });
    refused({"'text'", "string", "expected an array"}, [&] { file.get_string_array("text"); });
    refused({"'u8s'", "array of u8", "expected an array of f32"}, [&] { file.get_f32_array("u8s"); });
    refused({"'u8s'", "array of u8", "expected an array of strings"}, [&] { file.get_string_array("u8s"); });
    refused({"'texts'", "array of string", "expected an array of integers"}, [&] { file.get_i32_array("texts"); });
    refused({"'f32s'", "array of f32", "expected an array of integers"}, [&] { file.get_i32_array("f32s"); });
}

TEST_F(Gguf, refuses_integers_that_do_not_fit) {
    const GgufFile file = parse(numbers());
    test::expect_error(ErrorKind::model, {"'i8'", "-100", "unsigned integer of 32 bits"}, [&] { file.get_u32("i8"); });
    test::expect_error(ErrorKind::model, {"'u32'", "4000000000", "signed"}, [&] { file.get_i32("u32"); });
    test::expect_error(ErrorKind::model, {"'u64'", "9223372036854775808"}, [&] { file.get_u32("u64"); });
}

TEST_F(Gguf, places_tensors_where_their_offsets_say) {
    GgufBuilder builder;
    builder.u32("general.alignment", 64);
    builder.alignment = 64;
    Bytes first(20, std::byte{1}), second(8, std::byte{2});
    builder.tensor("first", {32}, 3, first).tensor("second", {2, 1}, 0, second).zeros("scalar", {});
    const GgufFile file = parse(builder);
    ASSERT_EQ(file.tensors().size(), 3u);
    const TensorView& tensor = *file.find_tensor("second");
    EXPECT_EQ(tensor.dims, 2u);
    EXPECT_EQ(tensor.shape, (std::array<uint64_t, 4>{2, 1, 1, 1}));
    EXPECT_EQ(tensor.bytes, 8u);
    EXPECT_EQ(Bytes(tensor.data, tensor.data + tensor.bytes), second);
    EXPECT_EQ((tensor.data - bytes_.data()) % 64, 0);
    EXPECT_EQ(Bytes(file.tensors()[0].data, file.tensors()[0].data + 20), first);
    EXPECT_EQ(file.find_tensor("scalar")->elements(), 1u);
    EXPECT_EQ(file.find_tensor("third"), nullptr);
}

TEST_F(Gguf, reads_version_2_like_version_3) {
    GgufBuilder builder = numbers();
    builder.version = 2;
    EXPECT_EQ(parse(builder).version(), 2u);
}

TEST_F(Gguf, describes_values_on_one_safe_line) {
    GgufBuilder builder = numbers();
    builder.string("evil", "a\x1b[31m\nb\xff");
    const GgufFile file = parse(builder);
    const auto text = [&](const char* key) { return file.describe(*file.find(key)); };
    EXPECT_EQ(text("i8"), "-100");
    EXPECT_EQ(text("f64"), "0.1");
    EXPECT_EQ(text("yes"), "true");
    EXPECT_EQ(text("texts"), "3 x string: [a, , bc]");
    EXPECT_EQ(text("f32s"), "2 x f32: [0.5, 2]");
    EXPECT_EQ(text("evil"), "a\\x1b[31m\\nb\\xff");
    EXPECT_EQ(printable("abcdef", 3), "abc...");
}

TEST_F(Gguf, opens_a_file_and_outlives_a_move) {
    const std::string path = ::testing::TempDir() + "kvplane_gguf_test.gguf";
    const Bytes bytes = numbers().zeros("weight", {4}).build();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    GgufFile opened = GgufFile::open(path);
    std::remove(path.c_str());
    const GgufFile file = std::move(opened);
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(file.file_bytes(), bytes.size());
    EXPECT_EQ(file.get_string("text"), "caf\u00e9");
    EXPECT_EQ(file.find_tensor("weight")->data[15], std::byte{0});
}

TEST_F(Gguf, says_why_a_path_cannot_be_opened) {
    const std::string missing = ::testing::TempDir() + "kvplane_no_such_file.gguf";
    test::expect_error(ErrorKind::model, {missing, "No such file"}, [&] { GgufFile::open(missing); });
    test::expect_error(ErrorKind::model, {"not a regular file"}, [&] { GgufFile::open(::testing::TempDir()); });
    const std::string empty = ::testing::TempDir() + "kvplane_empty.gguf";
    std::ofstream{empty};
    test::expect_error(ErrorKind::model, {empty, "empty"}, [&] { GgufFile::open(empty); });
    std::remove(empty.c_str());
}

}  // namespace
}  // namespace kvplane
