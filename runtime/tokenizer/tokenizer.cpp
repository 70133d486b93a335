#include "tokenizer/tokenizer.h"

#include <algorithm>

#include "base/error.h"

namespace kvplane {

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special) const {
    const TextSegment segment{std::string(text), !parse_special};
    return encode({&segment, 1});
}

std::vector<int32_t> Tokenizer::encode(std::span<const TextSegment> segments) const {
    std::vector<int32_t> ids;
    std::string plain;  // text since the last special token
    const auto flush = [&] {
        encode_plain(plain, ids);
        plain.clear();
    };
    for (const TextSegment& segment : segments) {
        size_t position = 0;
        while (!segment.from_user) {
            const auto match = special_.find(segment.text, position);
            if (!match) break;
            plain.append(segment.text, position, match->position - position);
            flush();
            ids.push_back(match->id);
            position = match->position + match->length;
        }
        plain.append(segment.text, position);
    }
    flush();
    return ids;
}

void Tokenizer::encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
    if (text.size() >= uint64_t{1} << 31) {
        throw Error(ErrorKind::usage,
                    "a text of " + std::to_string(text.size()) + " bytes is too long to tokenise; at most 2 GiB are");
    }
    std::vector<std::string_view> pieces;
    split(rule_, text, pieces);
    BytePairs::Workspace work;
    for (const std::string_view piece : pieces) {
        if (whole_pieces_first_) {
            if (const auto whole = ids_.find(piece); whole != ids_.end()) {
                ids.push_back(whole->second);
                continue;
            }
        }
        pairs_.encode(piece, work, ids);
    }
}

void Tokenizer::begin_prompt(std::vector<int32_t>& ids) const {
    if (!adds_bos_ || (!ids.empty() && ids.front() == *bos_)) return;
    ids.insert(ids.begin(), *bos_);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool with_control) const {
    std::string text;
    for (const int32_t id : ids) {
        if (with_control || !is_control(id)) text += piece(id);
    }
    return text;
}

size_t Tokenizer::checked_id(int32_t id) const {
    if (id >= 0 && id < vocabulary_size()) return static_cast<size_t>(id);
    throw Error(ErrorKind::usage, "token id " + std::to_string(id) + " is outside the vocabulary (0 to " +
                                      std::to_string(vocabulary_size() - 1) + ")");
}

std::string_view Tokenizer::piece(int32_t id) const {
    const size_t index = checked_id(id);
    const size_t start = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(start, ends_[index] - start);
}

bool Tokenizer::is_control(int32_t id) const {
    return kinds_[checked_id(id)] == Kind::control;
}

bool Tokenizer::is_end_of_generation(int32_t id) const noexcept {
    return std::find(end_of_generation_.begin(), end_of_generation_.end(), id) != end_of_generation_.end();
}

}  // namespace kvplane
