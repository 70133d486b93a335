#include "tokenizer/utf8_stream.h"

#include <utility>

#include "model/utf8.h"

namespace kvplane {

namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
    held_ += bytes;
    std::string text;
    size_t at = 0;
    while (at < held_.size()) {
        const Utf8Character character = decode_utf8(held_, at);
        if (character.incomplete) break;
        text += character.valid ? std::string_view(held_).substr(at, character.length) : replacement;
        at += character.length;
    }
    held_.erase(0, at);
    return text;
}

std::string Utf8Stream::finish() {
    const std::string held = std::exchange(held_, {});
    return std::string(held.empty() ? "" : replacement);
}

}  // namespace kvplane
