// The Llama family in GGUF: Llama 1 to 3, SmolLM2, Mistral. RMS norm, RoPE on adjacent pairs (the converter permutes
// the rows of Q and K), MHA or GQA, SwiGLU, no biases as a rule.
#include <algorithm>
#include <cmath>

#include "model/architecture.h"
#include "model/tensor_check.h"

namespace kvplane {

namespace {

std::string key(const char* name) {
    return std::string("llama.") + name;
}

uint32_t get_positive(const GgufFile& file, const char* name) {
    const uint32_t value = file.get_u32(key(name));
    if (value == 0) file.fail("key '" + key(name) + "' is 0; it must be positive");
    return value;
}

// One number, or an array with one for each layer: then all must be equal, since a page has one size.
uint32_t read_kv_heads(const GgufFile& file, uint32_t heads, uint32_t layers) {
    const std::string name = key("attention.head_count_kv");
    const GgufEntry* entry = file.find(name);
    if (!entry) return heads;
    if (entry->type != GgufType::array) return get_positive(file, "attention.head_count_kv");
    const std::vector<uint32_t> per_layer = *file.find_u32_array(name);
    if (per_layer.size() != layers) {
        file.fail("key '" + name + "' has " + std::to_string(per_layer.size()) + " values for " +
                  std::to_string(layers) + " layers");
    }
    if (std::any_of(per_layer.begin(), per_layer.end(), [&](uint32_t n) { return n != per_layer.front(); })) {
        file.fail("key '" + name + "' differs from layer to layer, which is not supported yet");
    }
    if (per_layer.front() == 0) file.fail("key '" + name + "' holds 0; it must be positive");
    return per_layer.front();
}

uint32_t read_head_size(const GgufFile& file, uint32_t width, uint32_t heads) {
    const uint32_t size = file.find_u32(key("attention.key_length")).value_or(width / heads);
    const uint32_t value_size = file.find_u32(key("attention.value_length")).value_or(width / heads);
    if (size == 0) {
        file.fail("the head size is 0: width " + std::to_string(width) + ", " + std::to_string(heads) + " heads");
    }
    if (value_size != size) {
        file.fail("keys of " + std::to_string(size) + " and values of " + std::to_string(value_size) +
                  " elements a head differ, which is not supported yet");
    }
    return size;
}

ModelShape read_shape(const GgufFile& file) {
    if (const uint32_t experts = file.find_u32(key("expert_count")).value_or(0)) {
        file.fail("a mixture of " + std::to_string(experts) + " experts is not supported yet");
    }
    ModelShape shape;
    shape.architecture = "llama";
    shape.name = file.find_string("general.name").value_or("");
    shape.layers = get_positive(file, "block_count");
    shape.width = get_positive(file, "embedding_length");
    shape.feed_forward_width = get_positive(file, "feed_forward_length");
    shape.heads = get_positive(file, "attention.head_count");
    shape.kv_heads = read_kv_heads(file, shape.heads, shape.layers);
    if (shape.heads % shape.kv_heads != 0) {
        file.fail(std::to_string(shape.heads) + " heads cannot share " + std::to_string(shape.kv_heads) +
                  " KV heads evenly ('" + key("attention.head_count_kv") + "')");
    }
    shape.head_size = read_head_size(file, shape.width, shape.heads);
    shape.context_length = get_positive(file, "context_length");
    shape.norm_epsilon = file.get_f32(key("attention.layer_norm_rms_epsilon"));
    if (!(shape.norm_epsilon > 0) || !std::isfinite(shape.norm_epsilon)) {
        file.fail("key '" + key("attention.layer_norm_rms_epsilon") + "' is " + std::to_string(shape.norm_epsilon) +
                  "; it must be a positive number");
    }
    const TensorView* embedding = file.find_tensor("token_embd.weight");
    if (!embedding) file.fail("tensor 'token_embd.weight' is missing");
    const uint64_t vocabulary = embedding->shape[1];
    if (vocabulary > INT32_MAX) file.fail("a vocabulary of " + std::to_string(vocabulary) + " tokens is too large");
    shape.vocabulary = static_cast<uint32_t>(vocabulary);
    shape.tied_output = file.find_tensor("output.weight") == nullptr;
    return shape;
}

void check_vocabulary(const GgufFile& file, const ModelShape& shape) {
    const std::string rows = "; tensor 'token_embd.weight' has " + std::to_string(shape.vocabulary) + " rows";
    const uint32_t stated = file.find_u32(key("vocab_size")).value_or(shape.vocabulary);
    if (stated != shape.vocabulary) file.fail("key '" + key("vocab_size") + "' is " + std::to_string(stated) + rows);
    const GgufEntry* tokens = file.find("tokenizer.ggml.tokens");
    if (tokens && tokens->type == GgufType::array && tokens->count > shape.vocabulary) {
        file.fail("key 'tokenizer.ggml.tokens' has " + std::to_string(tokens->count) + " tokens" + rows);
    }
}

std::vector<std::string> check_tensors(const GgufFile& file, const ModelShape& shape) {
    check_vocabulary(file, shape);
    TensorCheck check(file);
    const uint64_t width = shape.width, inner = shape.feed_forward_width;
    const uint64_t query = uint64_t{shape.heads} * shape.head_size;
    const uint64_t key_value = uint64_t{shape.kv_heads} * shape.head_size;
    check.matrix("token_embd.weight", width, shape.vocabulary);
    check.vector("output_norm.weight", width);
    check.optional_matrix("output.weight", width, shape.vocabulary);
    check.ignore("rope_freqs.weight");
    for (uint32_t layer = 0; layer < shape.layers; ++layer) {
        const std::string block = "blk." + std::to_string(layer) + ".";
        check.vector(block + "attn_norm.weight", width);
        check.matrix(block + "attn_q.weight", width, query);
        check.matrix(block + "attn_k.weight", width, key_value);
        check.matrix(block + "attn_v.weight", width, key_value);
        check.matrix(block + "attn_output.weight", query, width);
        check.vector(block + "ffn_norm.weight", width);
        check.matrix(block + "ffn_gate.weight", width, inner);
        check.matrix(block + "ffn_up.weight", width, inner);
        check.matrix(block + "ffn_down.weight", inner, width);
        check.optional_vector(block + "attn_q.bias", query);
        check.optional_vector(block + "attn_k.bias", key_value);
        check.optional_vector(block + "attn_v.bias", key_value);
        check.optional_vector(block + "attn_output.bias", width);
        check.optional_vector(block + "ffn_gate.bias", inner);
        check.optional_vector(block + "ffn_up.bias", inner);
        check.optional_vector(block + "ffn_down.bias", width);
    }
    return check.warnings();
}

RopeSpec read_llama_rope(const GgufFile& file, const ModelShape& shape) {
    return read_rope(file, "llama", shape.head_size, shape.context_length, true);
}

}  // namespace

const Architecture llama_architecture = {"llama", read_shape, check_tensors, read_llama_rope};

}  // namespace kvplane
