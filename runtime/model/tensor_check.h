// Checks the tensors of a file against what an architecture expects, and remembers which were asked for.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "model/gguf.h"

namespace kvplane {

class TensorCheck {
public:
    explicit TensorCheck(const GgufFile& file) : file_(file) {}

    // A matrix of `rows` rows with `columns` contiguous values each, of any readable type.
    const TensorView& matrix(const std::string& name, uint64_t columns, uint64_t rows);
    bool optional_matrix(const std::string& name, uint64_t columns, uint64_t rows);
    // Norm weights and biases: f32.
    void vector(const std::string& name, uint64_t size);
    void optional_vector(const std::string& name, uint64_t size);
    // A tensor that may be there and that someone else checks.
    void ignore(const std::string& name) { seen_.insert(name); }

    // One warning that names the tensors nobody asked for, or none.
    std::vector<std::string> warnings() const;

private:
    const TensorView& required(const std::string& name);
    void check_shape(const TensorView& tensor, std::initializer_list<uint64_t> expected) const;
    void check_type(const TensorView& tensor, bool f32_only) const;

    const GgufFile& file_;
    std::unordered_set<std::string> seen_;
};

}  // namespace kvplane
