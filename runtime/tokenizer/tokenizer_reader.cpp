// Builds a Tokenizer from the `tokenizer.ggml.*` keys of a GGUF file.
#include <algorithm>
#include <array>

#include "model/gguf_value.h"
#include "model/utf8.h"
#include "tokenizer/tokenizer.h"

namespace kvplane {

namespace {

// The vocabulary spells bytes as printable characters (GPT-2): 33-126, 161-172 and 174-255 stand for themselves, the
// other 68 bytes, in rising order, are U+0100 and up.
constexpr uint32_t first_substitute = 256;

constexpr bool stands_for_itself(uint32_t byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

constexpr std::array<uint8_t, 68> substituted_bytes = [] {
    std::array<uint8_t, 68> bytes{};
    size_t count = 0;
    for (uint32_t byte = 0; byte < 256; ++byte) {
        if (!stands_for_itself(byte)) bytes[count++] = static_cast<uint8_t>(byte);
    }
    return bytes;
}();

// The bytes that a vocabulary entry spells; an entry with any other character is its own text.
std::string spelled_bytes(std::string_view entry) {
    std::string bytes;
    for (size_t at = 0; at < entry.size();) {
        const Utf8Character character = decode_utf8(entry, at);
        const uint32_t code = character.code_point;
        if (character.valid && stands_for_itself(code)) {
            bytes += static_cast<char>(code);
        } else if (character.valid && code >= first_substitute && code - first_substitute < substituted_bytes.size()) {
            bytes += static_cast<char>(substituted_bytes[code - first_substitute]);
        } else {
            return std::string(entry);
        }
        at += character.length;
    }
    return bytes;
}

// Control tokens that end an answer, whatever the file calls its EOS: chat models end a turn with one and a text with
// another.
constexpr std::array<std::string_view, 6> end_of_generation_names = {"<|im_end|>",      "<|endoftext|>", "<|eot_id|>",
                                                                     "<|end_of_text|>", "<|eom_id|>",    "<|end|>"};

}  // namespace

class TokenizerReader {
public:
    TokenizerReader(const GgufFile& file, Tokenizer& tokenizer) : file_(file), tokenizer_(tokenizer) {}

    void read() {
        const std::string_view model = file_.get_string("tokenizer.ggml.model");
        if (model != "gpt2") {
            file_.fail("the tokenizer '" + printable(model, 80) + "' is not supported; gpt2 (byte-level BPE) is");
        }
        read_rule();
        read_tokens();
        index_tokens();
        read_merges();
        read_roles();
    }

private:
    void warn(const std::string& what) { tokenizer_.warnings_.push_back(file_.path() + ": " + what); }

    void read_rule() {
        const auto name = file_.find_string("tokenizer.ggml.pre");
        const auto rule = split_rule(name.value_or(""));
        if (!rule) {
            warn((name ? "key 'tokenizer.ggml.pre' names the unknown rule '" + printable(*name, 80) + "'"
                       : "key 'tokenizer.ggml.pre' is missing") +
                 ": text is split as GPT-2 does, which may make answers worse");
        }
        tokenizer_.rule_ = rule.value_or(SplitRule::gpt2);
        tokenizer_.whole_pieces_first_ = tokenizer_.rule_ == SplitRule::llama3;
    }

    template <class T>
    void check_length(const char* key, const std::vector<T>& values, size_t tokens) const {
        if (values.size() == tokens) return;
        file_.fail("key '" + std::string(key) + "' has " + std::to_string(values.size()) + " values for " +
                   std::to_string(tokens) + " tokens");
    }

    void read_tokens() {
        const auto tokens = file_.get_string_array("tokenizer.ggml.tokens");
        if (tokens.empty() || tokens.size() > INT32_MAX) {
            file_.fail("key 'tokenizer.ggml.tokens' has " + std::to_string(tokens.size()) + " tokens");
        }
        if (file_.find("tokenizer.ggml.scores")) {
            check_length("tokenizer.ggml.scores", file_.get_f32_array("tokenizer.ggml.scores"), tokens.size());
        }
        std::vector<int32_t> kinds(tokens.size(), 1);
        if (file_.find("tokenizer.ggml.token_type")) {
            kinds = file_.get_i32_array("tokenizer.ggml.token_type");
            check_length("tokenizer.ggml.token_type", kinds, tokens.size());
        }
        for (size_t i = 0; i < tokens.size(); ++i) {
            if (kinds[i] < 1 || kinds[i] > 6) {
                file_.fail("key 'tokenizer.ggml.token_type' holds " + std::to_string(kinds[i]) + " for token " +
                           std::to_string(i) + "; 1 to 6 are known");
            }
            const auto kind = static_cast<Tokenizer::Kind>(kinds[i]);
            tokenizer_.bytes_ += is_ordinary(kind) ? spelled_bytes(tokens[i]) : std::string(tokens[i]);
            tokenizer_.ends_.push_back(tokenizer_.bytes_.size());
            tokenizer_.kinds_.push_back(kind);
        }
    }

    // Made by merges; the others are cut out of the text as they are.
    static bool is_ordinary(Tokenizer::Kind kind) {
        return kind != Tokenizer::Kind::control && kind != Tokenizer::Kind::user_defined;
    }

    void index_tokens() {
        size_t doubled = 0;
        tokenizer_.ids_.reserve(tokenizer_.kinds_.size());
        for (int32_t id = 0; id < tokenizer_.vocabulary_size(); ++id) {
            const std::string_view piece = tokenizer_.piece(id);
            if (!is_ordinary(tokenizer_.kinds_[static_cast<size_t>(id)])) {
                tokenizer_.special_.add(piece, id);
            } else if (!tokenizer_.ids_.try_emplace(piece, id).second) {
                ++doubled;
            }
        }
        if (doubled > 0) warn(std::to_string(doubled) + " tokens double the text of another; the first one counts");
        for (uint32_t byte = 0; byte < 256; ++byte) {
            const char text = static_cast<char>(byte);
            if (const auto id = find_token({&text, 1})) tokenizer_.pairs_.set_byte(static_cast<uint8_t>(byte), *id);
        }
    }

    std::optional<int32_t> find_token(std::string_view bytes) const {
        const auto found = tokenizer_.ids_.find(bytes);
        if (found == tokenizer_.ids_.end()) return std::nullopt;
        return found->second;
    }

    void read_merges() {
        const auto merges = file_.get_string_array("tokenizer.ggml.merges");
        size_t unusable = 0;
        tokenizer_.pairs_.reserve(merges.size());
        for (size_t rank = 0; rank < merges.size(); ++rank) {
            // Spaces inside a piece are spelled as another character, so the first one parts the two. It may not lead.
            const size_t gap = merges[rank].find(' ', 1);
            if (gap == std::string_view::npos) {
                file_.fail("key 'tokenizer.ggml.merges' holds '" + printable(merges[rank], 80) + "' at " +
                           std::to_string(rank) + "; expected two pieces with a space between");
            }
            const std::string left = spelled_bytes(merges[rank].substr(0, gap));
            const std::string right = spelled_bytes(merges[rank].substr(gap + 1));
            const auto left_id = find_token(left), right_id = find_token(right), merged = find_token(left + right);
            if (left_id && right_id && merged) {
                tokenizer_.pairs_.add_merge(*left_id, *right_id, static_cast<uint32_t>(rank), *merged);
            } else {
                ++unusable;
            }
        }
        if (unusable > 0) {
            warn(std::to_string(unusable) + " of " + std::to_string(merges.size()) +
                 " merges name pieces that are no ordinary tokens; they are left out");
        }
    }

    std::optional<int32_t> read_id(const char* name) const {
        const std::string key = std::string("tokenizer.ggml.") + name;
        const auto id = file_.find_u32(key);
        if (!id) return std::nullopt;
        if (*id >= tokenizer_.kinds_.size()) {
            file_.fail("key '" + key + "' is " + std::to_string(*id) + ", outside the vocabulary of " +
                       std::to_string(tokenizer_.kinds_.size()) + " tokens");
        }
        return static_cast<int32_t>(*id);
    }

    void read_roles() {
        tokenizer_.bos_ = read_id("bos_token_id");
        tokenizer_.eos_ = read_id("eos_token_id");
        tokenizer_.adds_bos_ =
            file_.find_bool("tokenizer.ggml.add_bos_token").value_or(tokenizer_.rule_ == SplitRule::llama3);
        if (tokenizer_.adds_bos_ && !tokenizer_.bos_) {
            file_.fail("prompts are to start with BOS, but key 'tokenizer.ggml.bos_token_id' is missing");
        }
        for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
            if (const auto id = read_id(name)) tokenizer_.end_of_generation_.push_back(*id);
        }
        for (int32_t id = 0; id < tokenizer_.vocabulary_size(); ++id) {
            if (!tokenizer_.is_control(id) || tokenizer_.is_end_of_generation(id)) continue;
            const auto& names = end_of_generation_names;
            if (std::find(names.begin(), names.end(), tokenizer_.piece(id)) != names.end()) {
                tokenizer_.end_of_generation_.push_back(id);
            }
        }
    }

    const GgufFile& file_;
    Tokenizer& tokenizer_;
};

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const GgufFile& file) {
    std::unique_ptr<Tokenizer> tokenizer(new Tokenizer);
    TokenizerReader(file, *tokenizer).read();
    return tokenizer;
}

}  // namespace kvplane
