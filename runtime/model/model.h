// A model that is ready to be laid out: hyper-parameters and weights, whatever its architecture and container.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"
#include "model/rope.h"
#include "model/tensor.h"

namespace kvplane {

struct ModelShape {
    std::string architecture;
    std::string name;
    uint32_t layers = 0;
    uint32_t width = 0;  // of the residual stream
    uint32_t feed_forward_width = 0;
    uint32_t heads = 0;     // query heads
    uint32_t kv_heads = 0;  // divides heads
    uint32_t head_size = 0;
    uint32_t vocabulary = 0;      // rows of the embedding; may exceed the tokenizer's tokens
    uint32_t context_length = 0;  // positions that the model was trained for
    float norm_epsilon = 0;
    RopeSpec rope;
    bool tied_output = false;  // the embedding serves as output matrix
};

class Model {
public:
    // Throws Error(model). Every tensor that the architecture needs is there, of the right shape and a readable type.
    static std::unique_ptr<Model> open(const std::string& path);
    static std::unique_ptr<Model> from_gguf(GgufFile file);

    const ModelShape& shape() const noexcept { return shape_; }
    const GgufFile& file() const noexcept { return file_; }
    // What is odd about the file, yet no reason to refuse it; one line each.
    const std::vector<std::string>& warnings() const noexcept { return warnings_; }

    std::span<const TensorView> tensors() const noexcept { return file_.tensors(); }
    const TensorView* find_tensor(std::string_view name) const noexcept { return file_.find_tensor(name); }
    const TensorView& tensor(std::string_view name) const;  // throws Error(model) that names the missing one

    // Equal for two files whose shape, RoPE, tensor table and first bytes of every tensor are equal: state saved for
    // one model must not be loaded into another. Reads one page of each tensor.
    uint64_t fingerprint() const;

private:
    explicit Model(GgufFile file) : file_(std::move(file)) {}

    GgufFile file_;
    ModelShape shape_;
    std::vector<std::string> warnings_;
};

}  // namespace kvplane
