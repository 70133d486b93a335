// Every rule of the parser, broken one at a time; then files cut and altered at every byte.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "model/gguf.h"
#include "model/model.h"
#include "support/expect_error.h"
#include "support/gguf_builder.h"
#include "support/tiny_llama.h"

namespace kvplane {
namespace {

using test::append;
using test::append_raw;
using test::append_string;
using test::Bytes;
using test::GgufBuilder;

constexpr uint64_t huge = uint64_t{1} << 63;

// A copy of exactly the bytes, so that a sanitizer sees a read beyond them.
void refused_bytes(const Bytes& bytes, const std::vector<std::string>& parts) {
    const auto exact = std::make_unique<std::byte[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), exact.get());
    test::expect_error(ErrorKind::model, parts, [&] { GgufFile::parse({exact.get(), bytes.size()}, "bad.gguf"); });
}

void refused(const GgufBuilder& builder, std::vector<std::string> parts) {
    parts.push_back("bad.gguf");
    refused_bytes(builder.build(), parts);
}

GgufBuilder small() {
    GgufBuilder builder;
    builder.u32("number", 1).string("text", "words").zeros("first", {4, 2}).zeros("second", {3});
    return builder;
}

TEST(MalformedGguf, refuses_what_is_no_gguf) {
    GgufBuilder builder = small();
    builder.magic = "GGML";
    refused(builder, {"offset 0", "not a GGUF file"});
    refused_bytes({}, {"not a GGUF file"});
    refused_bytes({std::byte{'G'}, std::byte{'G'}}, {"not a GGUF file"});
}

TEST(MalformedGguf, refuses_other_versions_and_byte_orders) {
    GgufBuilder builder = small();
    for (const uint32_t version : {0u, 1u, 4u}) {
        builder.version = version;
        refused(builder, {"offset 4", "version " + std::to_string(version)});
    }
    builder.version = 0x03000000;
    refused(builder, {"big-endian"});
}

TEST(MalformedGguf, refuses_counts_that_the_file_cannot_hold) {
    for (const uint64_t count : {uint64_t{1000}, huge, huge - 1, std::numeric_limits<uint64_t>::max()}) {
        GgufBuilder builder = small();
        builder.tensor_count = count;
        refused(builder, {"offset 8", std::to_string(count), "tensors"});
        builder = small();
        builder.entry_count = count;
        refused(builder, {"offset 16", std::to_string(count), "metadata"});
    }
}

TEST(MalformedGguf, refuses_bad_keys) {
    refused(small().u32("", 1), {"metadata entry 2", "empty key"});
    refused(small().u32("number", 2), {"key 'number'", "more than once"});
    refused(small().u32(std::string("a\0b", 3), 2), {"a\\x00b", "UTF-8"});
    refused(small().u32("a\xff", 2), {"a\\xff", "UTF-8"});
}

TEST(MalformedGguf, refuses_lengths_beyond_the_file_or_the_limit) {
    for (const uint64_t length : {huge, std::numeric_limits<uint64_t>::max(), uint64_t{1} << 31}) {
        Bytes value;
        append(value, uint32_t{test::gguf_string});
        append(value, length);
        refused(GgufBuilder().raw("long", value), {"key 'long'", std::to_string(length), "1073741824"});
    }
    Bytes value;
    append(value, uint32_t{test::gguf_string});
    append(value, uint64_t{100000});
    refused(GgufBuilder().raw("long", value), {"key 'long'", "100000", "ends"});

    Bytes file;
    append_raw(file, "GGUF");
    append(file, uint32_t{3});
    append(file, uint64_t{0});
    append(file, uint64_t{1});
    append(file, (uint64_t{1} << 20) + 1);
    file.resize(file.size() + 64);
    refused_bytes(file, {"offset 24", "1048577", "1048576"});
}

TEST(MalformedGguf, refuses_arrays_beyond_the_file_or_the_limit) {
    const auto array = [](uint32_t type, uint64_t count) {
        Bytes value;
        append(value, uint32_t{test::gguf_array});
        append(value, type);
        append(value, count);
        value.resize(value.size() + 64);
        return GgufBuilder().raw("list", value);
    };
    for (const uint64_t count : {huge, std::numeric_limits<uint64_t>::max(), (uint64_t{1} << 30) + 1}) {
        refused(array(test::gguf_f64, count), {"key 'list'", std::to_string(count), "1073741824"});
    }
    refused(array(test::gguf_f64, 1000), {"key 'list'", "1000", "hold at most"});
    refused(array(test::gguf_string, uint64_t{1} << 30), {"key 'list'", "1073741824", "hold at most"});
    refused(array(test::gguf_array, 1), {"array of arrays"});
    refused(array(13, 1), {"key 'list'", "unknown value type 13"});
}

TEST(MalformedGguf, refuses_unknown_value_types_and_bools) {
    refused(GgufBuilder().value("odd", 13, uint32_t{0}), {"key 'odd'", "unknown value type 13"});
    refused(GgufBuilder().value("odd", 0xffffffff, uint32_t{0}), {"key 'odd'", "4294967295"});
    refused(GgufBuilder().value("odd", test::gguf_bool, uint8_t{2}), {"key 'odd'", "bool 2"});
    refused(GgufBuilder().array<uint8_t>("odd", test::gguf_bool, {0, 1, 3}), {"key 'odd'", "bool 3"});
}

TEST(MalformedGguf, refuses_alignments_that_are_no_fit_power_of_two) {
    for (const uint32_t alignment : {0u, 1u, 3u, 4u, 24u, 1u << 21, 1u << 31}) {
        refused(small().u32("general.alignment", alignment),
                {"general.alignment", " " + std::to_string(alignment), "power of two"});
    }
    refused(small().string("general.alignment", "32"), {"general.alignment", "expected an integer"});
}

TEST(MalformedGguf, refuses_bad_tensor_names) {
    refused(small().zeros("", {1}), {"tensor 2", "empty name"});
    refused(small().zeros("first", {1}), {"tensor 'first'", "more than once"});
    refused(small().zeros(std::string(64, 'x'), {1}), {"tensor 2", "64 bytes", "at most 63"});
    refused(small().zeros("a\xc3", {1}), {"a\\xc3", "UTF-8"});
    const GgufBuilder longest = small().zeros(std::string(63, 'x'), {1});
    const Bytes bytes = longest.build();
    EXPECT_NE(GgufFile::parse(bytes, "good.gguf").find_tensor(std::string(63, 'x')), nullptr);
}

TEST(MalformedGguf, refuses_bad_shapes) {
    GgufBuilder builder = small();
    builder.tensors[0].dims = 5;
    refused(builder, {"tensor 'first'", "5 dimensions"});
    builder.tensors[0].dims = 0xffffffff;
    refused(builder, {"tensor 'first'", "4294967295 dimensions"});
    for (const std::vector<uint64_t>& shape : std::vector<std::vector<uint64_t>>{
             {huge, 1}, {huge, 2}, {uint64_t{1} << 32, uint64_t{1} << 32}, {uint64_t{1} << 62, 2}}) {
        builder = small();
        builder.tensors[0].shape = shape;
        refused(builder, {"tensor 'first'", "2^63"});
    }
    builder = small();
    builder.tensors[0].shape = {4, 0};
    refused(builder, {"dimension 1", "'first'", "is 0"});
}

TEST(MalformedGguf, refuses_sizes_that_overflow) {
    GgufBuilder builder = small();
    builder.tensors[0].shape = {uint64_t{1} << 62};  // times 4 bytes is 2^64
    refused(builder, {"tensor 'first'", "overflows"});
    builder.tensors[0].shape = {(uint64_t{1} << 62) - 1};  // fits, but not rounded up
    refused(builder, {"tensor 'first'", "overflows"});
}

TEST(MalformedGguf, refuses_tensor_types_it_does_not_know) {
    GgufBuilder builder = small();
    builder.tensors[0].type = 1000;
    refused(builder, {"tensor 'first'", "unknown tensor type 1000"});
    builder.tensors[0].type = 4;
    refused(builder, {"tensor 'first'", "q4_2", "withdrawn"});
    builder.tensors[0].type = 3;
    refused(builder, {"tensor 'first'", "rows of 4", "q4_1 (32 values)"});
}

TEST(MalformedGguf, refuses_offsets_off_the_running_sum) {
    for (const auto& [offset, reason] : std::vector<std::pair<uint64_t, std::string>>{
             {33, "alignment 32"}, {0, "32 was expected"}, {64, "32 was expected"}, {huge, "32 was expected"}}) {
        GgufBuilder builder = small();
        builder.tensors[1].offset = offset;
        refused(builder, {"tensor 'second'", std::to_string(offset), reason});
    }
}

TEST(MalformedGguf, refuses_a_file_cut_at_every_tensor_border) {
    const GgufBuilder builder = test::tiny_llama();
    const Bytes whole = builder.build();
    ASSERT_EQ(builder.borders().back(), whole.size());
    size_t cuts = 0;
    for (const size_t border : builder.borders()) {
        for (const size_t size : {border - 1, border, border + 1}) {
            if (size >= whole.size()) continue;
            refused_bytes({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}, {"cut off"});
            ++cuts;
        }
    }
    EXPECT_GT(cuts, 100u);
}

TEST(MalformedGguf, names_both_lengths_of_a_cut_file) {
    const Bytes whole = small().build();
    const Bytes cut(whole.begin(), whole.end() - 1);
    refused_bytes(cut, {std::to_string(whole.size()), std::to_string(cut.size()), "tensor 'second'"});
}

TEST(MalformedGguf, refuses_every_shorter_file) {
    const Bytes whole = small().build();
    for (size_t size = 0; size < whole.size(); ++size) {
        refused_bytes({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}, {"bad.gguf"});
    }
}

TEST(MalformedGguf, refuses_a_part_of_a_split_model) {
    refused(small().u32("split.count", 3), {"3 parts", "split"});
}

// An altered file is read or refused with Error(model); a sanitizer sees the rest.
void read_altered(const Bytes& bytes, size_t& accepted, size_t& refusals) {
    const auto exact = std::make_unique<std::byte[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), exact.get());
    try {
        GgufFile file = GgufFile::parse({exact.get(), bytes.size()}, "altered.gguf");
        for (const GgufEntry& entry : file.entries()) EXPECT_LT(file.describe(entry).size(), 400u);
        for (const TensorView& tensor : file.tensors()) {
            EXPECT_GE(tensor.data, exact.get());
            EXPECT_LE(tensor.data + tensor.bytes, exact.get() + bytes.size());
        }
        Model::from_gguf(std::move(file))->fingerprint();
        ++accepted;
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::model);
        ++refusals;
    }
}

TEST(MalformedGguf, survives_any_altered_header_byte) {
    const GgufBuilder builder = test::tiny_llama({.layers = 1});
    const Bytes whole = builder.build();
    size_t accepted = 0, refusals = 0;
    for (size_t at = 0; at < builder.borders().front(); ++at) {
        for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
            Bytes altered = whole;
            altered[at] = static_cast<std::byte>(value);
            read_altered(altered, accepted, refusals);
        }
    }
    EXPECT_GT(accepted, 0u);
    EXPECT_GT(refusals, accepted);
}

TEST(MalformedGguf, survives_random_damage) {
    const GgufBuilder builder = test::tiny_llama({.layers = 1});
    const Bytes whole = builder.build();
    std::mt19937 random(1);
    size_t accepted = 0, refusals = 0;
    for (int round = 0; round < 3000; ++round) {
        Bytes altered = whole;
        for (int change = 0; change < 4; ++change) {
            altered[random() % builder.borders().front()] = static_cast<std::byte>(random());
        }
        if (round % 8 == 0) altered.resize(random() % altered.size());
        read_altered(altered, accepted, refusals);
    }
    EXPECT_GT(refusals, 1000u);
}

}  // namespace
}  // namespace kvplane
