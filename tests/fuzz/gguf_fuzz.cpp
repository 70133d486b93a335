// Any bytes as a model file: refused with Error(model), or every tensor lies inside and everything read from the
// metadata is sound.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "model/model.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace {

using namespace kvplane;

void require(bool condition) {
    if (!condition) std::abort();
}

// Runs `action`, which may refuse the file but nothing else.
template <class Action>
void may_refuse(Action action) {
    try {
        action();
    } catch (const Error& error) {
        require(error.kind() == ErrorKind::model);
    }
}

void check_file(const GgufFile& file, std::span<const std::byte> bytes) {
    for (const TensorView& tensor : file.tensors()) {
        require(tensor.data >= bytes.data());
        require(tensor.bytes <= static_cast<uint64_t>(bytes.data() + bytes.size() - tensor.data));
        require(file.find_tensor(tensor.name) == &tensor);
    }
    for (const GgufEntry& entry : file.entries()) {
        require(file.find(entry.key) == &entry);
        file.describe(entry);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
    may_refuse([&] {
        GgufFile file = GgufFile::parse(bytes, "fuzz.gguf");
        check_file(file, bytes);
        may_refuse([&] { ChatTemplate::from_gguf(file); });
        may_refuse([&] {
            const auto tokenizer = Tokenizer::from_gguf(file);
            for (const int32_t id : tokenizer->encode("The 1st <|im_end|> caf\u00e9\n\n", true)) {
                require(id >= 0 && id < tokenizer->vocabulary_size());
            }
        });
        const auto model = Model::from_gguf(std::move(file));
        require(model->shape().rope.inverse_frequencies.size() == model->shape().rope.dimensions / 2);
        model->fingerprint();
    });
    return 0;
}
