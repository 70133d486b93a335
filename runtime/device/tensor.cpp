#include "device/tensor.h"

namespace kvplane {

namespace {

DLDataType data_type(Tensor::Element element) {
    switch (element) {
        case Tensor::Element::f32: return {kDLFloat, 32, 1};
        case Tensor::Element::f16: return {kDLFloat, 16, 1};
        case Tensor::Element::bf16: return {kDLBfloat, 16, 1};
        case Tensor::Element::i32: return {kDLInt, 32, 1};
        case Tensor::Element::byte: return {kDLUInt, 8, 1};
    }
    return {kDLUInt, 8, 1};
}

}  // namespace

Tensor::Tensor() {
    link();
}

Tensor::Tensor(const Tensor& other)
    : tensor_(other.tensor_),
      view_(other.view_),
      shape_(other.shape_),
      strides_(other.strides_),
      format_(other.format_) {
    link();
}

Tensor& Tensor::operator=(const Tensor& other) {
    tensor_ = other.tensor_;
    view_ = other.view_;
    shape_ = other.shape_;
    strides_ = other.strides_;
    format_ = other.format_;
    link();
    return *this;
}

void Tensor::link() {
    view_.shape = shape_.data();
    view_.strides = strides_.data();
    tensor_.head.struct_size = sizeof(kvp_tensor);
    tensor_.view = &view_;
    tensor_.format = {format_.data(), format_.size()};
}

Tensor Tensor::matrix(Element element, int64_t rows, int64_t columns, kvp_address address) {
    Tensor made;
    made.view_.data = reinterpret_cast<void*>(address);
    made.view_.device = {kDLCPU, 0};
    made.view_.ndim = 2;
    made.view_.dtype = data_type(element);
    made.shape_ = {rows, columns};
    made.strides_ = {columns, 1};
    made.tensor_.n_columns = columns;
    made.tensor_.tier = KVP_TIER_DEVICE;
    return made;
}

Tensor Tensor::vector(Element element, int64_t columns, kvp_address address) {
    Tensor made = matrix(element, 1, columns, address);
    made.view_.ndim = 1;
    made.shape_ = {columns, 1};
    made.strides_ = {1, 1};
    return made;
}

Tensor Tensor::blocks(std::string format, int64_t rows, int64_t row_bytes, int64_t columns, kvp_address address) {
    Tensor made = matrix(Element::byte, rows, row_bytes, address);
    made.format_ = std::move(format);
    made.tensor_.n_columns = columns;
    made.link();
    return made;
}

Tensor Tensor::rows(int64_t row, int64_t n_rows) const {
    Tensor part = *this;
    const uint64_t element_bytes = view_.dtype.bits / 8u;
    part.view_.data = reinterpret_cast<void*>(address() + static_cast<uint64_t>(row * strides_[0]) * element_bytes);
    part.shape_[0] = n_rows;
    return part;
}

}  // namespace kvplane
