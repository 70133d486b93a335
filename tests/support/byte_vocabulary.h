// A vocabulary with a token for each byte, a few merges and two control tokens; no file needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/gguf_builder.h"

namespace kvplane::test {

// How byte-level vocabularies spell a byte: printable ones as they are, the others from U+0100 on, in rising order.
inline std::string spelled_byte(uint32_t byte) {
    const auto printable = [](uint32_t b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
    uint32_t code = byte;
    if (!printable(byte)) {
        code = 256;
        for (uint32_t lower = 0; lower < byte; ++lower) code += !printable(lower);
    }
    if (code < 0x80) return {static_cast<char>(code)};
    return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

inline GgufBuilder byte_vocabulary(const std::string& rule) {
    std::vector<std::string> tokens = {"<|im_start|>", "<|im_end|>"};
    for (uint32_t byte = 0; byte < 256; ++byte) tokens.push_back(spelled_byte(byte));
    const std::string space = spelled_byte(' ');
    const std::vector<std::string> merges = {"t h", "th e", space + " the", "a a", "aa aa", space + " " + space, "1 2"};
    for (std::string merged : merges) {
        merged.erase(merged.find(' '), 1);
        tokens.push_back(merged);
    }
    std::vector<int32_t> kinds(tokens.size(), 1);
    kinds[0] = kinds[1] = 3;
    GgufBuilder builder;
    builder.string("tokenizer.ggml.model", "gpt2")
        .string("tokenizer.ggml.pre", rule)
        .string_array("tokenizer.ggml.tokens", tokens)
        .array<int32_t>("tokenizer.ggml.token_type", gguf_i32, kinds)
        .string_array("tokenizer.ggml.merges", merges)
        .u32("tokenizer.ggml.bos_token_id", 0)
        .u32("tokenizer.ggml.eos_token_id", 1);
    return builder;
}

}  // namespace kvplane::test
