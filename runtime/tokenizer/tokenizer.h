// Text to token ids and back: byte-level BPE as GGUF files describe it (`tokenizer.ggml.model` = gpt2).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/gguf.h"
#include "tokenizer/byte_pairs.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/special_tokens.h"

namespace kvplane {

// A stretch of a prompt. What a user wrote is taken literally: typing "<|im_end|>" gives its characters, never the
// token that ends a message.
struct TextSegment {
    std::string text;
    bool from_user;

    bool operator==(const TextSegment&) const = default;
};

// Safe to share between threads; keeps nothing of the file that it was read from.
class Tokenizer {
public:
    // Throws Error(model) for another kind of tokenizer or tables that contradict each other.
    static std::unique_ptr<Tokenizer> from_gguf(const GgufFile& file);

    // Without BOS; see begin_prompt(). With `parse_special` the text of a control or user-defined token becomes that
    // token. Text of 2 GiB and more is refused with Error(usage).
    std::vector<int32_t> encode(std::string_view text, bool parse_special) const;
    // Special tokens are parsed outside user segments. Segments are joined before they are split into pieces, so that
    // the ids are those of the whole text.
    std::vector<int32_t> encode(std::span<const TextSegment> segments) const;
    // Puts BOS in front if the model wants it and the ids do not start with it already.
    void begin_prompt(std::vector<int32_t>& ids) const;

    // Bytes, which end inside a UTF-8 character as often as not (utf8_stream.h). Control tokens are left out unless
    // asked for. Throws Error(usage) for an id outside the vocabulary.
    std::string decode(std::span<const int32_t> ids, bool with_control = false) const;
    // The bytes of one token; of a control token, its name.
    std::string_view piece(int32_t id) const;

    int32_t vocabulary_size() const noexcept { return static_cast<int32_t>(kinds_.size()); }
    std::optional<int32_t> bos() const noexcept { return bos_; }
    std::optional<int32_t> eos() const noexcept { return eos_; }
    bool adds_bos() const noexcept { return adds_bos_; }
    bool is_control(int32_t id) const;
    bool is_end_of_generation(int32_t id) const noexcept;
    SplitRule split_rule() const noexcept { return rule_; }
    // What is odd about the file's tables, yet no reason to refuse them; one line each.
    const std::vector<std::string>& warnings() const noexcept { return warnings_; }

private:
    friend class TokenizerReader;
    // The values are those of `tokenizer.ggml.token_type`.
    enum class Kind : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

    Tokenizer() = default;
    void encode_plain(std::string_view text, std::vector<int32_t>& ids) const;
    size_t checked_id(int32_t id) const;

    std::string bytes_;         // of all tokens, end to end
    std::vector<size_t> ends_;  // where each ends in bytes_
    std::vector<Kind> kinds_;
    std::unordered_map<std::string_view, int32_t> ids_;  // ordinary tokens, by their bytes in bytes_
    BytePairs pairs_;
    SpecialTokens special_;
    SplitRule rule_ = SplitRule::gpt2;
    bool whole_pieces_first_ = false;  // a piece that is a token needs no merges (Llama 3)
    bool adds_bos_ = false;
    std::optional<int32_t> bos_, eos_;
    std::vector<int32_t> end_of_generation_;
    std::vector<std::string> warnings_;
};

}  // namespace kvplane
