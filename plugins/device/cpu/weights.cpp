#include "weights.h"

#include <cstring>
#include <string>
#include <string_view>

#include "error.h"
#include "half.h"
#include "k_blocks.h"
#include "tensor_view.h"

namespace kvplane::cpu {
namespace {

PanelFormat format_of(const kvp_tensor& tensor, const char* name) {
    const std::string_view format(tensor.format.n_bytes != 0 ? tensor.format.data : "", tensor.format.n_bytes);
    const DLDataType type = tensor.view->dtype;
    if (format.empty()) {
        if (type.code == kDLFloat && type.bits == 32) return PanelFormat::F32;
        if (type.code == kDLFloat && type.bits == 16) return PanelFormat::F16;
        if (type.code == kDLBfloat && type.bits == 16) return PanelFormat::BF16;
    } else if (type.code == kDLUInt && type.bits == 8) {
        if (format == "gguf.q8_0/1") return PanelFormat::Q8_0;
        if (format == "gguf.q4_0/1") return PanelFormat::Q4_0;
        if (format == "gguf.q4_1/1") return PanelFormat::Q4_1;
        if (format == "gguf.q4_k/1") return PanelFormat::Q4_K;
        if (format == "gguf.q5_k/1") return PanelFormat::Q5_K;
        if (format == "gguf.q6_k/1") return PanelFormat::Q6_K;
    }
    unsupported(std::string(name) + " is in " + (format.empty() ? "an element type" : "format " + std::string(format)) +
                " that the cpu plugin does not read; it reads f32, f16, bf16 and uint8 blocks of gguf.q8_0/1, "
                "gguf.q4_0/1, gguf.q4_1/1, gguf.q4_k/1, gguf.q5_k/1, gguf.q6_k/1");
}

uint16_t load_u16(const uint8_t* p) {
    uint16_t x;
    std::memcpy(&x, p, sizeof x);
    return x;
}

}  // namespace

Weights weights_of(const kvp_tensor& tensor, const char* name) {
    const RowBytes bytes = row_bytes(tensor, name);
    const PanelFormat format = format_of(tensor, name);
    Weights weights{format, bytes.data, bytes.rows, bytes.columns, bytes.stride_bytes};
    if (is_quantised(format)) {
        weights.columns = tensor.n_columns;
        const int64_t elements = block_elements(format);
        if (tensor.n_columns <= 0 || tensor.n_columns % elements != 0 ||
            bytes.columns != tensor.n_columns / elements * block_bytes(format)) {
            invalid(std::string(name) + " has rows of " + std::to_string(bytes.columns) + " bytes, which is not " +
                    std::to_string(tensor.n_columns) + " elements in blocks of " + std::to_string(elements));
        }
    } else {
        if (tensor.n_columns != 0 && tensor.n_columns != bytes.columns)
            invalid(std::string(name) + " has a wrong n_columns");
        const uintptr_t element = format == PanelFormat::F32 ? 4 : 2;
        if (reinterpret_cast<uintptr_t>(bytes.data) % element != 0) invalid(std::string(name) + " is not aligned");
    }
    if (weights.rows == 0 || weights.columns == 0) invalid(std::string(name) + " is empty");
    return weights;
}

void decode_row(const Weights& weights, int64_t row, float* out) {
    const uint8_t* in = weights.row(row);
    switch (weights.format) {
        case PanelFormat::F32: std::memcpy(out, in, static_cast<size_t>(weights.columns) * sizeof(float)); return;
        case PanelFormat::F16:
            for (int64_t i = 0; i < weights.columns; ++i) out[i] = half_to_float(load_u16(in + 2 * i));
            return;
        case PanelFormat::BF16:
            for (int64_t i = 0; i < weights.columns; ++i) out[i] = bfloat_to_float(load_u16(in + 2 * i));
            return;
        case PanelFormat::Q4_K:
        case PanelFormat::Q5_K:
        case PanelFormat::Q6_K:
            for (int64_t i = 0; i < weights.columns; i += kSuperBlock, in += block_bytes(weights.format)) {
                decode_k_block(weights.format, in, out + i);
            }
            return;
        default: break;
    }
    for (int64_t block = 0; block < weights.columns / kBlock;
         ++block, in += block_bytes(weights.format), out += kBlock) {
        const float scale = half_to_float(load_u16(in));
        const uint8_t* quants = in + block_header_bytes(weights.format);
        if (weights.format == PanelFormat::Q8_0) {
            for (int64_t j = 0; j < kBlock; ++j) out[j] = scale * static_cast<float>(static_cast<int8_t>(quants[j]));
            continue;
        }
        const float minimum = weights.format == PanelFormat::Q4_1 ? half_to_float(load_u16(in + 2)) : -8.0f * scale;
        for (int64_t j = 0; j < kBlock / 2; ++j) {
            out[j] = scale * static_cast<float>(quants[j] & 15) + minimum;
            out[j + kBlock / 2] = scale * static_cast<float>(quants[j] >> 4) + minimum;
        }
    }
}

}  // namespace kvplane::cpu
