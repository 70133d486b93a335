#include "config/toml_guard.h"

namespace kvplane {

namespace {

// The string that starts at text[at], by its quotes: """ ''' " ' or nothing.
std::string_view opening_quotes(std::string_view text, size_t at) {
    for (const std::string_view quotes : {"\"\"\"", "'''", "\"", "'"}) {
        if (text.substr(at).starts_with(quotes)) return quotes;
    }
    return {};
}

// Where the string with these quotes, whose content starts at `at`, ends: behind its closing quotes; at the end of the
// line or text when they are missing.
size_t end_of_string(std::string_view text, size_t at, std::string_view quotes) {
    const bool has_escapes = quotes[0] == '"';
    const bool many_lines = quotes.size() == 3;
    while (at < text.size()) {
        if (!many_lines && text[at] == '\n') return at;
        if (text.substr(at).starts_with(quotes)) {
            at += quotes.size();
            // Two more quotes may stand before the closing three and belong to the content.
            for (int extra = 0; many_lines && extra < 2 && at < text.size() && text[at] == quotes[0]; ++extra) ++at;
            return at;
        }
        at += has_escapes && text[at] == '\\' && at + 1 < text.size() && text[at + 1] != '\n' ? 2 : 1;
    }
    return at;
}

bool is_control(unsigned char byte) {
    return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f;
}

}  // namespace

std::optional<ForbiddenCharacter> find_forbidden_character(std::string_view text) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    size_t ascii_from =
        text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;  // any character before it is fine
    ForbiddenCharacter place;
    for (size_t at = ascii_from; at < text.size(); ++at) {
        const auto byte = static_cast<unsigned char>(text[at]);
        if (at >= ascii_from) {
            if (byte == '#') {
                const auto end = text.find('\n', at);
                ascii_from = end == std::string_view::npos ? text.size() : end;
            } else if (const auto quotes = opening_quotes(text, at); !quotes.empty()) {
                ascii_from = end_of_string(text, at + quotes.size(), quotes);
            }
        }
        place.is_control = is_control(byte);
        if (place.is_control || (byte >= 0x80 && at >= ascii_from)) return place;
        if (byte == '\n') {
            ++place.line;
            place.column = 1;
        } else if ((byte & 0xc0) != 0x80) {
            ++place.column;
        }
    }
    return std::nullopt;
}

}  // namespace kvplane
