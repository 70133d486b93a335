// SDK, tensors: a kvp_tensor that holds its own view, shape and strides. The elements are never owned.
#pragma once

#include <initializer_list>

#include "kvplane/sdk/base.hpp"
#include "kvplane/tensor.h"

namespace kvp {

constexpr DLDevice cpu_device{kDLCPU, 0};
constexpr DLDataType f32_type{kDLFloat, 32, 1};
constexpr DLDataType i32_type{kDLInt, 32, 1};
constexpr DLDataType byte_type{kDLUInt, 8, 1};

class Tensor {
public:
    static constexpr int max_dimensions = 4;

    // Contiguous, at an address of `device`'s memory.
    Tensor(kvp_address address, DLDataType type, std::initializer_list<int64_t> shape, DLDevice device = cpu_device)
        : tensor_(make<kvp_tensor>()) {
        for (int64_t extent : shape) {
            if (view_.ndim < max_dimensions) shape_[view_.ndim++] = extent;
        }
        for (int i = view_.ndim - 1, next = -1; i >= 0; next = i--) {
            strides_[i] = next < 0 ? 1 : strides_[next] * shape_[next];
        }
        view_.data = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
        view_.device = device;
        view_.dtype = type;
        tensor_.tier = KVP_TIER_DEVICE;
        attach();
    }

    static Tensor f32(kvp_address address, std::initializer_list<int64_t> shape, DLDevice device = cpu_device) {
        return Tensor(address, f32_type, shape, device);
    }
    static Tensor i32(kvp_address address, std::initializer_list<int64_t> shape, DLDevice device = cpu_device) {
        return Tensor(address, i32_type, shape, device);
    }
    // Block-quantised: `format` ("gguf.q4_1/1") must outlive the tensor.
    static Tensor blocks(kvp_address address, std::string_view format, int64_t n_rows, int64_t row_bytes,
                         int64_t n_columns, DLDevice device = cpu_device) {
        Tensor made(address, byte_type, {n_rows, row_bytes}, device);
        made.tensor_.format = str(format);
        made.tensor_.n_columns = n_columns;
        return made;
    }
    // Rows [begin, begin + n_rows) of a borrowed tensor: the same elements, ready event included.
    static Tensor rows(const kvp_tensor& of, int64_t begin, int64_t n_rows) {
        Tensor made(0, of.view->dtype, {});
        made.view_ = *of.view;
        for (int i = 0; i < of.view->ndim && i < max_dimensions; i++) {
            made.shape_[i] = of.view->shape[i];
            made.strides_[i] = of.view->strides[i];
        }
        made.shape_[0] = n_rows;
        const auto bits = static_cast<uint64_t>(of.view->dtype.bits) * of.view->dtype.lanes;
        made.view_.byte_offset += static_cast<uint64_t>(begin * made.strides_[0]) * bits / 8;
        made.tensor_ = of;
        made.tensor_.head = make<kvp_tensor>().head;
        made.attach();
        return made;
    }

    Tensor(const Tensor& other) : tensor_(other.tensor_), view_(other.view_) { copy_extents(other); }
    Tensor& operator=(const Tensor& other) {
        tensor_ = other.tensor_;
        view_ = other.view_;
        copy_extents(other);
        return *this;
    }

    const kvp_tensor* get() const { return &tensor_; }
    operator const kvp_tensor*() const { return &tensor_; }  // so that {x, out} makes an operand list

private:
    void attach() {
        view_.shape = shape_;
        view_.strides = strides_;
        tensor_.view = &view_;
    }
    void copy_extents(const Tensor& other) {
        for (int i = 0; i < max_dimensions; i++) {
            shape_[i] = other.shape_[i];
            strides_[i] = other.strides_[i];
        }
        attach();
    }

    kvp_tensor tensor_;
    DLTensor view_{};
    int64_t shape_[max_dimensions]{};
    int64_t strides_[max_dimensions]{};
};

// Where the first element is.
inline kvp_address address(const kvp_tensor& tensor) {
    return static_cast<kvp_address>(reinterpret_cast<uintptr_t>(tensor.view->data)) + tensor.view->byte_offset;
}

}  // namespace kvp
