#include "tensor_view.h"

#include <string>
#include <utility>

#include "error.h"

namespace kvplane::cpu {
namespace {

const DLTensor& checked_view(const kvp_tensor& tensor, const char* name) {
    if (tensor.head.struct_size < sizeof(kvp_tensor) || tensor.view == nullptr) {
        invalid(std::string(name) + " has no view");
    }
    const DLTensor& view = *tensor.view;
    if (view.device.device_type != kDLCPU) invalid(std::string(name) + " is not in CPU memory");
    if (view.ndim < 1 || view.ndim > 8 || view.shape == nullptr) invalid(std::string(name) + " has no usable shape");
    for (int32_t i = 0; i < view.ndim; ++i) {
        if (view.shape[i] < 0 || view.shape[i] > int64_t{1} << 40)
            invalid(std::string(name) + " has a wrong dimension");
    }
    return view;
}

const uint8_t* data_of(const DLTensor& view, const char* name, bool empty) {
    if (view.data == nullptr && !empty) invalid(std::string(name) + " has no data");
    return static_cast<const uint8_t*>(view.data) + view.byte_offset;
}

void expect_type(const DLTensor& view, const char* name, uint8_t code, uint8_t bits) {
    if (view.dtype.code != code || view.dtype.bits != bits || view.dtype.lanes != 1) {
        invalid(std::string(name) + " has the wrong element type");
    }
}

// Rows (all dimensions but the last) and the last dimension of a contiguous view.
std::pair<int64_t, int64_t> contiguous_shape(const DLTensor& view, const char* name) {
    int64_t size = 1;
    for (int32_t i = view.ndim - 1; i >= 0; --i) {
        if (view.strides != nullptr && view.shape[i] > 1 && view.strides[i] != size) {
            invalid(std::string(name) + " is not contiguous");
        }
        if (size > 0 && view.shape[i] > (int64_t{1} << 50) / size) invalid(std::string(name) + " is too large");
        size *= view.shape[i];
    }
    const int64_t columns = view.shape[view.ndim - 1];
    return {columns == 0 ? 0 : size / columns, columns};
}

}  // namespace

Matrix<float> f32_matrix(const kvp_tensor& tensor, const char* name) {
    const DLTensor& view = checked_view(tensor, name);
    if (tensor.format.n_bytes != 0) invalid(std::string(name) + " must be plain f32");
    expect_type(view, name, kDLFloat, 32);
    const auto [rows, columns] = contiguous_shape(view, name);
    const uint8_t* data = data_of(view, name, rows == 0 || columns == 0);
    if (reinterpret_cast<uintptr_t>(data) % alignof(float) != 0)
        invalid(std::string(name) + " is not aligned to 4 bytes");
    return {reinterpret_cast<float*>(const_cast<uint8_t*>(data)), rows, columns};
}

RowBytes row_bytes(const kvp_tensor& tensor, const char* name) {
    const DLTensor& view = checked_view(tensor, name);
    if (view.ndim != 2) invalid(std::string(name) + " must have two dimensions");
    if (view.dtype.bits % 8 != 0 || view.dtype.lanes != 1) invalid(std::string(name) + " has the wrong element type");
    const int64_t element = view.dtype.bits / 8;
    const int64_t rows = view.shape[0];
    const int64_t columns = view.shape[1];
    int64_t stride = columns;
    if (view.strides != nullptr) {
        if (columns > 1 && view.strides[1] != 1) invalid(std::string(name) + " has rows that are not contiguous");
        if (rows > 1) stride = view.strides[0];
        if (stride < columns) invalid(std::string(name) + " has overlapping rows");
    }
    const uint8_t* data = data_of(view, name, rows == 0 || columns == 0);
    return {data, rows, columns, stride * element};
}

const kvp_tensor& Operands::tensor(uint32_t index, const char* name) const {
    if (index >= n_ || tensors_ == nullptr || tensors_[index] == nullptr) invalid(std::string(name) + " is missing");
    return *tensors_[index];
}

void Operands::expect(uint32_t n) const {
    if (n_ != n) invalid("the op takes " + std::to_string(n) + " operands, not " + std::to_string(n_));
}

Matrix<float> Operands::f32(uint32_t index, const char* name) const {
    return f32_matrix(tensor(index, name), name);
}

Matrix<float> Operands::f32(uint32_t index, const char* name, int64_t rows, int64_t columns) const {
    const Matrix<float> matrix = f32(index, name);
    if (matrix.rows != rows || matrix.columns != columns) {
        invalid(std::string(name) + " is [" + std::to_string(matrix.rows) + ", " + std::to_string(matrix.columns) +
                "] where the op needs [" + std::to_string(rows) + ", " + std::to_string(columns) + "]");
    }
    return matrix;
}

const int32_t* Operands::i32(uint32_t index, const char* name, int64_t n) const {
    const DLTensor& view = checked_view(tensor(index, name), name);
    expect_type(view, name, kDLInt, 32);
    const auto [rows, columns] = contiguous_shape(view, name);
    if (rows * columns != n) {
        invalid(std::string(name) + " holds " + std::to_string(rows * columns) + " values where the op needs " +
                std::to_string(n));
    }
    const uint8_t* data = data_of(view, name, n == 0);
    if (reinterpret_cast<uintptr_t>(data) % alignof(int32_t) != 0)
        invalid(std::string(name) + " is not aligned to 4 bytes");
    return reinterpret_cast<const int32_t*>(data);
}

}  // namespace kvplane::cpu
