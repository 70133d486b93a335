// Operands as plain arrays, after the checks that the ABI asks of a reader.
#pragma once

#include <cstdint>

#include "kvplane/tensor.h"

namespace kvplane::cpu {

template <typename T>
struct Matrix {
    T* data;
    int64_t rows;
    int64_t columns;

    T* row(int64_t index) const { return data + index * columns; }
};

// Bytes of a 2-D tensor whose rows are contiguous; rows themselves may be apart.
struct RowBytes {
    const uint8_t* data;
    int64_t rows;
    int64_t columns;  // of the view: elements, or bytes for blocks
    int64_t stride_bytes;
};

class Operands {
public:
    Operands(const kvp_tensor* const* tensors, uint32_t n) : tensors_(tensors), n_(n) {}

    void expect(uint32_t n) const;
    uint32_t size() const { return n_; }
    // Contiguous, any number of leading dimensions, taken together as rows.
    Matrix<float> f32(uint32_t index, const char* name) const;
    Matrix<float> f32(uint32_t index, const char* name, int64_t rows, int64_t columns) const;
    const int32_t* i32(uint32_t index, const char* name, int64_t n) const;

private:
    const kvp_tensor& tensor(uint32_t index, const char* name) const;

    const kvp_tensor* const* tensors_;
    uint32_t n_;
};

Matrix<float> f32_matrix(const kvp_tensor& tensor, const char* name);
RowBytes row_bytes(const kvp_tensor& tensor, const char* name);

}  // namespace kvplane::cpu
