#include "model/tensor_type.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace kvplane {

namespace {

using enum TensorType;

constexpr std::array tensor_types = std::to_array<TensorTypeInfo>({
    {f32, "f32", 1, 4, "f32", true},
    {f16, "f16", 1, 2, "f16", true},
    {q4_0, "q4_0", 32, 18, "gguf.q4_0/1", true},
    {q4_1, "q4_1", 32, 20, "gguf.q4_1/1", true},
    {q5_0, "q5_0", 32, 22, "gguf.q5_0/1", false},
    {q5_1, "q5_1", 32, 24, "gguf.q5_1/1", false},
    {q8_0, "q8_0", 32, 34, "gguf.q8_0/1", true},
    {q8_1, "q8_1", 32, 36, "gguf.q8_1/1", false},
    {q2_k, "q2_k", 256, 84, "gguf.q2_k/1", false},
    {q3_k, "q3_k", 256, 110, "gguf.q3_k/1", false},
    {q4_k, "q4_k", 256, 144, "gguf.q4_k/1", true},
    {q5_k, "q5_k", 256, 176, "gguf.q5_k/1", true},
    {q6_k, "q6_k", 256, 210, "gguf.q6_k/1", true},
    {q8_k, "q8_k", 256, 292, "gguf.q8_k/1", false},
    {iq2_xxs, "iq2_xxs", 256, 66, "gguf.iq2_xxs/1", false},
    {iq2_xs, "iq2_xs", 256, 74, "gguf.iq2_xs/1", false},
    {iq3_xxs, "iq3_xxs", 256, 98, "gguf.iq3_xxs/1", false},
    {iq1_s, "iq1_s", 256, 50, "gguf.iq1_s/1", false},
    {iq4_nl, "iq4_nl", 32, 18, "gguf.iq4_nl/1", false},
    {iq3_s, "iq3_s", 256, 110, "gguf.iq3_s/1", false},
    {iq2_s, "iq2_s", 256, 82, "gguf.iq2_s/1", false},
    {iq4_xs, "iq4_xs", 256, 136, "gguf.iq4_xs/1", false},
    {i8, "i8", 1, 1, "i8", false},
    {i16, "i16", 1, 2, "i16", false},
    {i32, "i32", 1, 4, "i32", false},
    {i64, "i64", 1, 8, "i64", false},
    {f64, "f64", 1, 8, "f64", false},
    {iq1_m, "iq1_m", 256, 56, "gguf.iq1_m/1", false},
    {bf16, "bf16", 1, 2, "bf16", true},
    {tq1_0, "tq1_0", 256, 54, "gguf.tq1_0/1", false},
    {tq2_0, "tq2_0", 256, 66, "gguf.tq2_0/1", false},
    {mxfp4, "mxfp4", 32, 17, "gguf.mxfp4/1", false},
    {nvfp4, "nvfp4", 64, 36, "gguf.nvfp4/1", false},
    {q1_0, "q1_0", 128, 18, "gguf.q1_0/1", false},
});

uint16_t load_u16(const std::byte* source) {
    uint16_t value;
    std::memcpy(&value, source, sizeof value);
    return value;
}

float load_half(const std::byte* source) {
    return half_to_float(load_u16(source));
}

// Block: d f16, q int8[32]; value = q * d.
void read_q8_0(const std::byte* block, float* target) {
    const float scale = load_half(block);
    for (size_t j = 0; j < 32; ++j) target[j] = static_cast<float>(static_cast<int8_t>(block[2 + j])) * scale;
}

// Block: d f16, 16 bytes; the low nibble of byte j is element j, the high one element j + 16; value = (q - 8) * d.
void read_q4_0(const std::byte* block, float* target) {
    const float scale = load_half(block);
    for (size_t j = 0; j < 16; ++j) {
        const int pair = std::to_integer<int>(block[2 + j]);
        target[j] = static_cast<float>((pair & 15) - 8) * scale;
        target[j + 16] = static_cast<float>((pair >> 4) - 8) * scale;
    }
}

// Block: d f16, m f16, 16 bytes in the order of q4_0; value = q * d + m.
void read_q4_1(const std::byte* block, float* target) {
    const float scale = load_half(block);
    const float minimum = load_half(block + 2);
    for (size_t j = 0; j < 16; ++j) {
        const int pair = std::to_integer<int>(block[4 + j]);
        target[j] = static_cast<float>(pair & 15) * scale + minimum;
        target[j + 16] = static_cast<float>(pair >> 4) * scale + minimum;
    }
}

// Scales and minima of the eight sub-blocks of q4_k and q5_k: 6 bits each in 12 bytes. Those of sub-blocks 0 to 3 are
// the low six bits of bytes 0 to 3 and 4 to 7; of the others bytes 8 to 11 hold the low halves (scale low, minimum
// high) and the top two bits of the first eight bytes the rest.
struct SubScales {
    std::array<float, 8> scale;
    std::array<float, 8> minimum;

    explicit SubScales(const std::byte* packed) {
        const auto byte = [packed](size_t i) { return std::to_integer<unsigned>(packed[i]); };
        for (size_t j = 0; j < 4; ++j) {
            scale[j] = static_cast<float>(byte(j) & 63);
            minimum[j] = static_cast<float>(byte(j + 4) & 63);
            scale[j + 4] = static_cast<float>((byte(j + 8) & 15) | (byte(j) >> 6) << 4);
            minimum[j + 4] = static_cast<float>(byte(j + 8) >> 4 | (byte(j + 4) >> 6) << 4);
        }
    }
};

// Eight sub-blocks of 32, two to 32 bytes of nibbles, the low ones first; `high` has bit j of byte i for element i of
// sub-block j, null for none. value = d * scale * q - dmin * minimum.
void read_k_nibbles(const std::byte* block, const std::byte* high, const std::byte* nibbles, float* target) {
    const float scale = load_half(block);
    const float minimum = load_half(block + 2);
    const SubScales sub(block + 4);
    for (size_t j = 0; j < 8; ++j) {
        const float sub_scale = scale * sub.scale[j];
        const float sub_minimum = minimum * sub.minimum[j];
        for (size_t i = 0; i < 32; ++i) {
            const auto pair = std::to_integer<unsigned>(nibbles[j / 2 * 32 + i]);
            unsigned quant = j % 2 == 0 ? pair & 15 : pair >> 4;
            if (high) quant |= (std::to_integer<unsigned>(high[i]) >> j & 1) << 4;
            target[j * 32 + i] = sub_scale * static_cast<float>(quant) - sub_minimum;
        }
    }
}

// Block: d f16, dmin f16, 12 bytes of scales, 128 of nibbles.
void read_q4_k(const std::byte* block, float* target) {
    read_k_nibbles(block, nullptr, block + 16, target);
}

// Block: as q4_k with 32 bytes of high bits before the nibbles.
void read_q5_k(const std::byte* block, float* target) {
    read_k_nibbles(block, block + 16, block + 48, target);
}

// Block: 128 bytes of nibbles, 64 of bit pairs above them, 16 scales int8, d f16. Each half of 128 elements has 64 and
// 32 bytes of these; its quarter k has the nibbles of bytes 32 (k % 2) .. + 31, high ones for k >= 2, and pair k of each
// byte. A scale serves 16 elements; value = d * scale * (q - 32).
void read_q6_k(const std::byte* block, float* target) {
    const float scale = load_half(block + 208);
    for (size_t element = 0; element < 256; ++element) {
        const size_t half = element / 128, quarter = element / 32 % 4, i = element % 32;
        const auto pair = std::to_integer<int>(block[half * 64 + quarter % 2 * 32 + i]);
        const int low = quarter < 2 ? pair & 15 : pair >> 4;
        const int high = std::to_integer<int>(block[128 + half * 32 + i]) >> (2 * quarter) & 3;
        const float sub_scale = scale * static_cast<float>(static_cast<int8_t>(block[192 + element / 16]));
        target[element] = sub_scale * static_cast<float>((low | high << 4) - 32);
    }
}

void read_f16(const std::byte* source, float* target) {
    *target = load_half(source);
}

// bf16 is the upper half of an f32.
void read_bf16(const std::byte* source, float* target) {
    *target = std::bit_cast<float>(static_cast<uint32_t>(load_u16(source)) << 16);
}

void read_f32(const std::byte* source, float* target) {
    std::memcpy(target, source, sizeof *target);
}

using BlockReader = void (*)(const std::byte*, float*);

BlockReader block_reader(TensorType type) noexcept {
    switch (type) {
        case f32: return read_f32;
        case f16: return read_f16;
        case bf16: return read_bf16;
        case q8_0: return read_q8_0;
        case q4_0: return read_q4_0;
        case q4_1: return read_q4_1;
        case q4_k: return read_q4_k;
        case q5_k: return read_q5_k;
        case q6_k: return read_q6_k;
        default: return nullptr;
    }
}

}  // namespace

const TensorTypeInfo* find_tensor_type(uint32_t id) noexcept {
    for (const TensorTypeInfo& info : tensor_types) {
        if (static_cast<uint32_t>(info.type) == id) return &info;
    }
    return nullptr;
}

const TensorTypeInfo& tensor_type_info(TensorType type) {
    const TensorTypeInfo* info = find_tensor_type(static_cast<uint32_t>(type));
    if (info) return *info;
    throw Error(ErrorKind::model, "no tensor type has the id " + std::to_string(static_cast<uint32_t>(type)));
}

std::string_view withdrawn_tensor_type(uint32_t id) noexcept {
    switch (id) {
        case 4: return "q4_2";
        case 5: return "q4_3";
        case 31: return "q4_0_4_4";
        case 32: return "q4_0_4_8";
        case 33: return "q4_0_8_8";
        case 36: return "iq4_nl_4_4";
        case 37: return "iq4_nl_4_8";
        case 38: return "iq4_nl_8_8";
        default: return {};
    }
}

std::string readable_tensor_types() {
    std::string names;
    for (const TensorTypeInfo& info : tensor_types) {
        if (!info.readable) continue;
        if (!names.empty()) names += ", ";
        names += info.name;
    }
    return names;
}

std::optional<uint64_t> tensor_bytes(TensorType type, uint64_t elements) noexcept {
    const TensorTypeInfo* info = find_tensor_type(static_cast<uint32_t>(type));
    if (!info || elements % info->block_elements != 0) return std::nullopt;
    return checked_multiply(elements / info->block_elements, info->block_bytes);
}

void dequantize_row(TensorType type, const std::byte* source, float* target, size_t count) {
    const TensorTypeInfo& info = tensor_type_info(type);
    const BlockReader read_block = block_reader(type);
    if (!read_block) {
        throw Error(ErrorKind::model, "tensor type " + std::string(info.name) +
                                          " is not supported yet; supported: " + readable_tensor_types());
    }
    if (count % info.block_elements != 0) {
        throw Error(ErrorKind::model, "a row of " + std::to_string(count) + " values is no whole number of blocks of " +
                                          std::string(info.name) + " (" + std::to_string(info.block_elements) + ")");
    }
    for (size_t done = 0; done < count; done += info.block_elements) {
        read_block(source, target + done);
        source += info.block_bytes;
    }
}

float half_to_float(uint16_t half) noexcept {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    const uint32_t exponent = (half >> 10) & 31;
    const uint32_t fraction = half & 0x3ff;
    if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

}  // namespace kvplane
