#include "model/tensor_check.h"

#include <algorithm>

#include "model/gguf_value.h"

namespace kvplane {

const TensorView& TensorCheck::required(const std::string& name) {
    const TensorView* tensor = file_.find_tensor(name);
    if (!tensor) file_.fail("tensor '" + name + "' is missing");
    seen_.insert(name);
    return *tensor;
}

void TensorCheck::check_shape(const TensorView& tensor, std::initializer_list<uint64_t> expected) const {
    std::string wanted;
    bool fits = true;
    size_t dimension = 0;
    for (const uint64_t extent : expected) {
        wanted += (wanted.empty() ? "" : " x ") + std::to_string(extent);
        fits = fits && tensor.shape[dimension++] == extent;
    }
    for (; dimension < tensor.shape.size(); ++dimension) fits = fits && tensor.shape[dimension] == 1;
    if (fits) return;
    file_.fail("tensor '" + std::string(tensor.name) + "' has the shape " + shape_text(tensor) +
               "; the metadata asks for " + wanted);
}

void TensorCheck::check_type(const TensorView& tensor, bool f32_only) const {
    const TensorTypeInfo& info = tensor_type_info(tensor.type);
    if (f32_only ? tensor.type == TensorType::f32 : info.readable) return;
    file_.fail("tensor '" + std::string(tensor.name) + "' is of type " + std::string(info.name) +
               ", which is not supported here yet; supported: " + (f32_only ? "f32" : readable_tensor_types()));
}

const TensorView& TensorCheck::matrix(const std::string& name, uint64_t columns, uint64_t rows) {
    const TensorView& tensor = required(name);
    check_shape(tensor, {columns, rows});
    check_type(tensor, false);
    return tensor;
}

bool TensorCheck::optional_matrix(const std::string& name, uint64_t columns, uint64_t rows) {
    if (!file_.find_tensor(name)) return false;
    matrix(name, columns, rows);
    return true;
}

void TensorCheck::vector(const std::string& name, uint64_t size) {
    const TensorView& tensor = required(name);
    check_shape(tensor, {size});
    check_type(tensor, true);
}

void TensorCheck::optional_vector(const std::string& name, uint64_t size) {
    if (file_.find_tensor(name)) vector(name, size);
}

std::vector<std::string> TensorCheck::warnings() const {
    constexpr size_t shown = 4;
    size_t count = 0;
    std::string names;
    for (const TensorView& tensor : file_.tensors()) {
        if (seen_.contains(std::string(tensor.name))) continue;
        if (++count > shown) continue;
        names += (names.empty() ? "" : ", ") + printable(tensor.name, 64);
    }
    if (count == 0) return {};
    if (count > shown) names += ", ...";
    return {file_.path() + ": " + std::to_string(count) +
            " tensors of the file are not used by this architecture: " + names};
}

}  // namespace kvplane
