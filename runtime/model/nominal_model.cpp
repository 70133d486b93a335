#include "model/nominal_model.h"

#include <cstring>
#include <span>
#include <string>

namespace kvplane {

namespace {

constexpr uint32_t layers = 4, width = 64, feed_forward_width = 64, heads = 2, kv_heads = 1, head_size = 64;
constexpr uint32_t vocabulary = 32;

// Writes a GGUF file, version 3 (model/gguf.h): counts, metadata, table of tensors, data in steps of 32 bytes.
class GgufWriter {
public:
    void text(std::string_view key, std::string_view value) {
        begin(key, GgufType::string);
        string(metadata_, value);
    }
    void number(std::string_view key, uint32_t value) {
        begin(key, GgufType::u32);
        append(metadata_, value);
    }
    void real(std::string_view key, float value) {
        begin(key, GgufType::f32);
        append(metadata_, value);
    }
    // Of zeros, f32: every size here is a multiple of 32 bytes.
    void tensor(std::string_view name, std::initializer_list<uint64_t> shape) {
        string(table_, name);
        append(table_, static_cast<uint32_t>(shape.size()));
        uint64_t bytes = sizeof(float);
        for (const uint64_t extent : shape) {
            append(table_, extent);
            bytes *= extent;
        }
        append(table_, static_cast<uint32_t>(TensorType::f32));
        append(table_, data_bytes_);
        data_bytes_ += bytes;
        ++n_tensors_;
    }

    std::vector<std::byte> file() const {
        std::vector<std::byte> made;
        for (const char letter : {'G', 'G', 'U', 'F'}) append(made, letter);
        append(made, uint32_t{3});
        append(made, n_tensors_);
        append(made, n_entries_);
        made.insert(made.end(), metadata_.begin(), metadata_.end());
        made.insert(made.end(), table_.begin(), table_.end());
        made.resize((made.size() + alignment - 1) / alignment * alignment + data_bytes_);
        return made;
    }

private:
    static constexpr size_t alignment = 32;

    template <class Value>
    static void append(std::vector<std::byte>& bytes, Value value) {
        const auto part = std::as_bytes(std::span(&value, 1));
        bytes.insert(bytes.end(), part.begin(), part.end());
    }
    static void string(std::vector<std::byte>& bytes, std::string_view value) {
        append(bytes, uint64_t{value.size()});
        const auto part = std::as_bytes(std::span(value));
        bytes.insert(bytes.end(), part.begin(), part.end());
    }
    void begin(std::string_view key, GgufType type) {
        string(metadata_, key);
        append(metadata_, static_cast<uint32_t>(type));
        ++n_entries_;
    }

    std::vector<std::byte> metadata_, table_;
    uint64_t n_entries_ = 0, n_tensors_ = 0, data_bytes_ = 0;
};

std::vector<std::byte> nominal_file(uint32_t context_length) {
    GgufWriter writer;
    writer.text("general.architecture", "llama");
    writer.text("general.name", "nominal");
    writer.number("llama.block_count", layers);
    writer.number("llama.context_length", context_length);
    writer.number("llama.embedding_length", width);
    writer.number("llama.feed_forward_length", feed_forward_width);
    writer.number("llama.attention.head_count", heads);
    writer.number("llama.attention.head_count_kv", kv_heads);
    writer.number("llama.attention.key_length", head_size);
    writer.number("llama.attention.value_length", head_size);
    writer.real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.tensor("token_embd.weight", {width, vocabulary});
    writer.tensor("output_norm.weight", {width});
    constexpr uint64_t query = uint64_t{heads} * head_size, key_value = uint64_t{kv_heads} * head_size;
    for (uint32_t layer = 0; layer < layers; ++layer) {
        const std::string block = "blk." + std::to_string(layer) + ".";
        writer.tensor(block + "attn_norm.weight", {width});
        writer.tensor(block + "attn_q.weight", {width, query});
        writer.tensor(block + "attn_k.weight", {width, key_value});
        writer.tensor(block + "attn_v.weight", {width, key_value});
        writer.tensor(block + "attn_output.weight", {query, width});
        writer.tensor(block + "ffn_norm.weight", {width});
        writer.tensor(block + "ffn_gate.weight", {width, feed_forward_width});
        writer.tensor(block + "ffn_up.weight", {width, feed_forward_width});
        writer.tensor(block + "ffn_down.weight", {feed_forward_width, width});
    }
    return writer.file();
}

}  // namespace

NominalModel::NominalModel(uint32_t context_length)
    : file_(nominal_file(context_length)), model_(Model::from_gguf(GgufFile::parse(file_, "the nominal model"))) {}

}  // namespace kvplane
