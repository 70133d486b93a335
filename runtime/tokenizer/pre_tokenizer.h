// Splits text into the pieces that byte-pair merges stay within. Published tokenizers state the rule as a regular
// expression; here each is a scanner that looks at every character a bounded number of times, since backtracking
// engines take quadratic time, or the whole stack, on long runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kvplane {

enum class SplitRule : uint8_t {
    // '(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    gpt2,
    // (?i:'(?:s|t|re|ve|m|ll|d))|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
    llama3,
    // every \p{N} stands alone; gpt2 on what lies between
    smollm,
};

// The rule that `tokenizer.ggml.pre` names, if it is known.
std::optional<SplitRule> split_rule(std::string_view name) noexcept;

// Appends the pieces of `text`; they cover it without gap or overlap. Bytes that are not UTF-8 count as symbols.
void split(SplitRule rule, std::string_view text, std::vector<std::string_view>& pieces);

}  // namespace kvplane
