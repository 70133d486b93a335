// A weight as it lies in the model file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/tensor_type.h"

namespace kvplane {

// Borrows name and data from the file that it was read from.
struct TensorView {
    std::string_view name;
    TensorType type;
    std::array<uint64_t, 4> shape;  // GGUF order: shape[0] is the fastest-varying; 1 beyond `dims`
    uint32_t dims;                  // 0 to 4; 0 is a single value
    const std::byte* data;
    uint64_t bytes;

    uint64_t elements() const noexcept { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

// "576 x 49152", in GGUF order.
inline std::string shape_text(const TensorView& tensor) {
    std::string text = std::to_string(tensor.shape[0]);
    for (uint32_t i = 1; i < tensor.dims; ++i) text += " x " + std::to_string(tensor.shape[i]);
    return text;
}

}  // namespace kvplane
