// The element types of GGUF tensors: their ids in the file, block geometry, the format id under which their bytes cross
// the plugin ABI, and a scalar reader that every faster kernel is tested against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvplane {

// The values are the ids in the file.
enum class TensorType : uint32_t {
    f32 = 0,
    f16 = 1,
    q4_0 = 2,
    q4_1 = 3,
    q5_0 = 6,
    q5_1 = 7,
    q8_0 = 8,
    q8_1 = 9,
    q2_k = 10,
    q3_k = 11,
    q4_k = 12,
    q5_k = 13,
    q6_k = 14,
    q8_k = 15,
    iq2_xxs = 16,
    iq2_xs = 17,
    iq3_xxs = 18,
    iq1_s = 19,
    iq4_nl = 20,
    iq3_s = 21,
    iq2_s = 22,
    iq4_xs = 23,
    i8 = 24,
    i16 = 25,
    i32 = 26,
    i64 = 27,
    f64 = 28,
    iq1_m = 29,
    bf16 = 30,
    tq1_0 = 34,
    tq2_0 = 35,
    mxfp4 = 39,
    nvfp4 = 40,
    q1_0 = 41,
};

struct TensorTypeInfo {
    TensorType type;
    std::string_view name;    // as the file's users write it: "q4_1"
    uint32_t block_elements;  // elements of a block; a row is a whole number of blocks
    uint32_t block_bytes;
    std::string_view format;  // the ABI's format id: "f32", "gguf.q4_1/1"
    bool readable;            // dequantize_row() knows it
};

// Null for an id that no known type has.
const TensorTypeInfo* find_tensor_type(uint32_t id) noexcept;

const TensorTypeInfo& tensor_type_info(TensorType type);

// The old name of an id that GGUF has withdrawn; empty for any other id.
std::string_view withdrawn_tensor_type(uint32_t id) noexcept;

// "f32, f16, ...": the types that dequantize_row() reads, for messages.
std::string readable_tensor_types();

// Bytes of `elements` values; empty if they are no whole number of blocks or the size overflows.
std::optional<uint64_t> tensor_bytes(TensorType type, uint64_t elements) noexcept;

// Reads `count` values (a whole number of blocks) as f32. Throws Error(model) for a type that is not readable.
void dequantize_row(TensorType type, const std::byte* source, float* target, size_t count);

float half_to_float(uint16_t half) noexcept;

}  // namespace kvplane
