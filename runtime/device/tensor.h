// A kvp_tensor together with everything that it points to, so that it can be passed around as one value.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kvplane/tensor.h"

namespace kvplane {

class Tensor {
public:
    enum class Element { f32, f16, bf16, i32, byte };

    Tensor();
    // Contiguous [rows, columns] at `address`.
    static Tensor matrix(Element element, int64_t rows, int64_t columns, kvp_address address);
    static Tensor vector(Element element, int64_t columns, kvp_address address);
    // Block-quantised: `rows` rows of `row_bytes` bytes in `format`, each standing for `columns` elements.
    static Tensor blocks(std::string format, int64_t rows, int64_t row_bytes, int64_t columns, kvp_address address);

    Tensor(const Tensor& other);
    Tensor& operator=(const Tensor& other);

    const kvp_tensor* abi() const { return &tensor_; }
    kvp_address address() const { return reinterpret_cast<kvp_address>(view_.data); }
    int64_t rows() const { return view_.ndim == 2 ? shape_[0] : 1; }
    int64_t columns() const { return tensor_.n_columns; }

    // The same memory seen as [n_rows, columns], from `row` on.
    Tensor rows(int64_t row, int64_t n_rows) const;

private:
    void link();

    kvp_tensor tensor_{};
    DLTensor view_{};
    std::array<int64_t, 2> shape_{};
    std::array<int64_t, 2> strides_{};
    std::string format_;
};

}  // namespace kvplane
