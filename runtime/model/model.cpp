#include "model/model.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "base/error.h"
#include "model/architecture.h"

namespace kvplane {

namespace {

class Hash {
public:
    Hash() { XXH3_64bits_reset(&state_); }

    void add(const void* data, size_t size) { XXH3_64bits_update(&state_, data, size); }
    void add(uint64_t value) { add(&value, sizeof value); }
    void add(float value) { add(&value, sizeof value); }
    void add(std::string_view text) {
        add(uint64_t{text.size()});
        add(text.data(), text.size());
    }
    uint64_t digest() const { return XXH3_64bits_digest(&state_); }

private:
    XXH3_state_t state_;
};

constexpr uint64_t sample_bytes = 64;  // of each tensor: tells fine-tunes of one architecture apart

}  // namespace

std::unique_ptr<Model> Model::open(const std::string& path) {
    return from_gguf(GgufFile::open(path));
}

std::unique_ptr<Model> Model::from_gguf(GgufFile file) {
    std::unique_ptr<Model> model(new Model(std::move(file)));
    const Architecture& architecture = find_architecture(model->file_);
    model->shape_ = architecture.read_shape(model->file_);
    model->warnings_ = architecture.check_tensors(model->file_, model->shape_);
    model->shape_.rope = architecture.read_rope(model->file_, model->shape_);
    return model;
}

const TensorView& Model::tensor(std::string_view name) const {
    if (const TensorView* found = find_tensor(name)) return *found;
    file_.fail("tensor '" + std::string(name) + "' is missing");
}

uint64_t Model::fingerprint() const {
    Hash hash;
    hash.add(std::string_view(shape_.architecture));
    for (const uint32_t value : {shape_.layers, shape_.width, shape_.feed_forward_width, shape_.heads, shape_.kv_heads,
                                 shape_.head_size, shape_.vocabulary}) {
        hash.add(uint64_t{value});
    }
    hash.add(shape_.norm_epsilon);
    hash.add(uint64_t{shape_.rope.interleaved});
    hash.add(shape_.rope.magnitude);
    for (const float frequency : shape_.rope.inverse_frequencies) hash.add(frequency);
    for (const TensorView& tensor : tensors()) {
        hash.add(tensor.name);
        hash.add(static_cast<uint64_t>(tensor.type));
        for (const uint64_t extent : tensor.shape) hash.add(extent);
        hash.add(tensor.data, static_cast<size_t>(std::min(sample_bytes, tensor.bytes)));
    }
    return hash.digest();
}

}  // namespace kvplane
