// The smallest Llama that exercises everything of one: GQA, two layers, f32 zeros for weights.
#pragma once

#include <cstdint>
#include <string>

#include "support/gguf_builder.h"

namespace kvplane::test {

struct TinyLlama {
    uint32_t layers = 2, width = 8, feed_forward_width = 12, heads = 4, kv_heads = 2, head_size = 2, vocabulary = 5;
    bool tied_output = true;
};

inline GgufBuilder tiny_llama(const TinyLlama& sizes = {}) {
    GgufBuilder builder;
    builder.string("general.architecture", "llama")
        .string("general.name", "tiny")
        .u32("llama.block_count", sizes.layers)
        .u32("llama.context_length", 64)
        .u32("llama.embedding_length", sizes.width)
        .u32("llama.feed_forward_length", sizes.feed_forward_width)
        .u32("llama.attention.head_count", sizes.heads)
        .u32("llama.attention.head_count_kv", sizes.kv_heads)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
        .f32("llama.rope.freq_base", 10000.0f);
    builder.zeros("token_embd.weight", {sizes.width, sizes.vocabulary}).zeros("output_norm.weight", {sizes.width});
    if (!sizes.tied_output) builder.zeros("output.weight", {sizes.width, sizes.vocabulary});
    const uint64_t query = uint64_t{sizes.heads} * sizes.head_size;
    const uint64_t key_value = uint64_t{sizes.kv_heads} * sizes.head_size;
    for (uint32_t layer = 0; layer < sizes.layers; ++layer) {
        const std::string block = "blk." + std::to_string(layer) + ".";
        builder.zeros(block + "attn_norm.weight", {sizes.width})
            .zeros(block + "attn_q.weight", {sizes.width, query})
            .zeros(block + "attn_k.weight", {sizes.width, key_value})
            .zeros(block + "attn_v.weight", {sizes.width, key_value})
            .zeros(block + "attn_output.weight", {query, sizes.width})
            .zeros(block + "ffn_norm.weight", {sizes.width})
            .zeros(block + "ffn_gate.weight", {sizes.width, sizes.feed_forward_width})
            .zeros(block + "ffn_up.weight", {sizes.width, sizes.feed_forward_width})
            .zeros(block + "ffn_down.weight", {sizes.feed_forward_width, sizes.width});
    }
    return builder;
}

}  // namespace kvplane::test
