#include "tokenizer/pre_tokenizer.h"

#include "model/utf8.h"
#include "tokenizer/unicode.h"

namespace kvplane {

namespace {

using enum CharacterClass;

struct Character {
    uint32_t code_point;
    uint32_t length;
    CharacterClass kind;
};

// Walks one text; the rules below ask it for the ends of runs. At and beyond the end of the text there is no character.
class Scanner {
public:
    explicit Scanner(std::string_view text) : text_(text) {}

    bool at_end(size_t at) const { return at >= text_.size(); }

    Character at(size_t position) const {
        const Utf8Character character = decode_utf8(text_, position);
        return {character.code_point, character.length,
                character.valid ? character_class(character.code_point) : CharacterClass::other};
    }

    bool is(size_t position, CharacterClass kind) const { return !at_end(position) && at(position).kind == kind; }

    // Where the run of `kind` that starts at `position` ends, after at most `limit` characters.
    size_t run_end(size_t position, CharacterClass kind, size_t limit = SIZE_MAX) const {
        for (; limit > 0 && !at_end(position); --limit) {
            const Character character = at(position);
            if (character.kind != kind) break;
            position += character.length;
        }
        return position;
    }

    size_t line_breaks_end(size_t position) const {
        while (!at_end(position) && is_line_break(text_[position])) ++position;
        return position;
    }

    static bool is_line_break(char byte) { return byte == '\r' || byte == '\n'; }

    // Length of the English contraction at `position`, 0 if there is none. Ignoring case, U+017F (long s) equals s.
    size_t contraction(size_t position, bool ignore_case) const {
        const std::string_view rest = text_.substr(position);
        if (rest.size() < 2 || rest[0] != '\'') return 0;
        const auto lower = [&](size_t i) {
            if (i >= rest.size()) return '\0';
            return ignore_case && rest[i] >= 'A' && rest[i] <= 'Z' ? static_cast<char>(rest[i] + 32) : rest[i];
        };
        switch (lower(1)) {
            case 's':
            case 't':
            case 'm':
            case 'd': return 2;
            case 'r':
            case 'v': return lower(2) == 'e' ? 3 : 0;
            case 'l': return lower(2) == 'l' ? 3 : 0;
            default: return ignore_case && rest.substr(1, 2) == "\u017f" ? 3 : 0;
        }
    }

    // \s+(?!\S)|\s+ : a run of white space leaves its last character to what follows, unless it is that character
    // alone.
    size_t space_end(size_t position) const {
        size_t last = position;
        size_t end = position;
        while (is(end, space)) {
            last = end;
            end += at(end).length;
        }
        return at_end(end) || last == position ? end : last;
    }

    // \s*[\r\n]+ : up to the last line break of a run of white space; `position` if there is none.
    size_t broken_line_end(size_t position) const {
        size_t end = position;
        while (is(position, space)) {
            const Character character = at(position);
            position += character.length;
            if (character.code_point == '\r' || character.code_point == '\n') end = position;
        }
        return end;
    }

private:
    std::string_view text_;
};

size_t gpt2_end(const Scanner& scanner, size_t position) {
    if (const size_t length = scanner.contraction(position, false)) return position + length;
    const Character first = scanner.at(position);
    const size_t start = first.code_point == ' ' ? position + 1 : position;
    if (!scanner.at_end(start)) {
        const CharacterClass kind = scanner.at(start).kind;
        if (kind != space) return scanner.run_end(start, kind);
    }
    return scanner.space_end(position);
}

size_t llama3_end(const Scanner& scanner, size_t position) {
    if (const size_t length = scanner.contraction(position, true)) return position + length;
    const Character first = scanner.at(position);
    const bool line_break = first.code_point == '\r' || first.code_point == '\n';
    const size_t second = position + first.length;
    if (first.kind == letter) return scanner.run_end(position, letter);
    if (first.kind == number) return scanner.run_end(position, number, 3);
    if (!line_break && scanner.is(second, letter)) return scanner.run_end(second, letter);
    if (first.kind == other) return scanner.line_breaks_end(scanner.run_end(position, other));
    if (first.code_point == ' ' && scanner.is(second, other)) {
        return scanner.line_breaks_end(scanner.run_end(second, other));
    }
    const size_t line_end = scanner.broken_line_end(position);
    return line_end > position ? line_end : scanner.space_end(position);
}

using EndOfPiece = size_t (*)(const Scanner&, size_t);

void split_by(EndOfPiece end_of_piece, std::string_view text, std::vector<std::string_view>& pieces) {
    const Scanner scanner(text);
    for (size_t position = 0; position < text.size();) {
        const size_t end = end_of_piece(scanner, position);
        pieces.push_back(text.substr(position, end - position));
        position = end;
    }
}

void split_smollm(std::string_view text, std::vector<std::string_view>& pieces) {
    const Scanner scanner(text);
    size_t start = 0;
    for (size_t position = 0; position < text.size();) {
        const Character character = scanner.at(position);
        if (character.kind == number) {
            split_by(gpt2_end, text.substr(start, position - start), pieces);
            pieces.push_back(text.substr(position, character.length));
            start = position + character.length;
        }
        position += character.length;
    }
    split_by(gpt2_end, text.substr(start), pieces);
}

}  // namespace

std::optional<SplitRule> split_rule(std::string_view name) noexcept {
    if (name == "gpt-2" || name == "gpt2" || name == "default") return SplitRule::gpt2;
    if (name == "llama-bpe" || name == "llama3" || name == "llama-v3") return SplitRule::llama3;
    if (name == "smollm") return SplitRule::smollm;
    return std::nullopt;
}

void split(SplitRule rule, std::string_view text, std::vector<std::string_view>& pieces) {
    switch (rule) {
        case SplitRule::gpt2: return split_by(gpt2_end, text, pieces);
        case SplitRule::llama3: return split_by(llama3_end, text, pieces);
        case SplitRule::smollm: return split_smollm(text, pieces);
    }
}

}  // namespace kvplane
