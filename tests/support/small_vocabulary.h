// GGUF files that hold nothing but the small vocabulary of tests/unit/tokenizer/golden/small_bpe.json.
#pragma once

#include <string>
#include <vector>

#include "support/gguf_builder.h"
#include "support/golden.h"

namespace kvplane::test {

inline GgufBuilder small_vocabulary(const nlohmann::json& golden, const std::string& rule) {
    const auto tokens = golden["tokens"].get<std::vector<std::string>>();
    std::vector<int32_t> kinds(tokens.size(), 1);
    for (const size_t control : golden["control"]) kinds[control] = 3;
    GgufBuilder builder;
    builder.string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", rule)
        .string_array("tokenizer.ggml.tokens", tokens)
        .array<int32_t>("tokenizer.ggml.token_type", gguf_i32, kinds)
        .string_array("tokenizer.ggml.merges", golden["merges"].get<std::vector<std::string>>())
        .u32("tokenizer.ggml.bos_token_id", 0)
        .u32("tokenizer.ggml.eos_token_id", 1);
    return builder;
}

}  // namespace kvplane::test
