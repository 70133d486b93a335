#include "config/problem.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace kvplane {

namespace {

constexpr size_t widest_excerpt = 100;  // characters of a source line that a message shows
constexpr size_t most_problems = 20;

bool starts_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

// Splits UTF-8 into characters, with everything that is not printable as '?': what is quoted may go to a terminal.
std::vector<std::string> characters(std::string_view text) {
    std::vector<std::string> result;
    for (const char byte : text) {
        const auto value = static_cast<unsigned char>(byte);
        if (starts_character(byte) || result.empty()) {
            result.emplace_back(1, value < 0x20 || value == 0x7f ? (byte == '\t' ? ' ' : '?') : byte);
        } else {
            result.back() += byte;
        }
    }
    return result;
}

// The line and the caret line below it, cut around the place when the line is long.
void append_excerpt(std::string& text, const Place& place) {
    const auto line = characters(place.text);
    const size_t column = place.column == 0 ? 0 : place.column - 1;
    const size_t first = column > widest_excerpt / 2 && line.size() > widest_excerpt ? column - widest_excerpt / 2 : 0;
    const size_t last = std::min(line.size(), first + widest_excerpt);
    const std::string number = place.origin.line > 0 ? std::to_string(place.origin.line) : "";
    const std::string lead = first > 0 ? "..." : "";

    text += "\n    " + number + (number.empty() ? "" : " ") + "| " + lead;
    for (size_t i = first; i < last; ++i) text += line[i];
    if (last < line.size()) text += "...";
    text += "\n    " + std::string(number.size() + (number.empty() ? 0 : 1), ' ') + "| ";
    text += std::string(lead.size() + std::min(column, last) - first, ' ') + '^';
    const size_t end = std::min(column + place.length, last);
    if (end > column + 1) text += std::string(end - column - 1, '~');
}

}  // namespace

std::string to_string(const Origin& origin) {
    switch (origin.kind) {
        case OriginKind::by_default: return "default";
        case OriginKind::file:
            return origin.name + ":" + std::to_string(origin.line) + ":" + std::to_string(origin.column);
        case OriginKind::environment: return "env " + origin.name;
        case OriginKind::override_option: return "--set " + origin.name;
    }
    return "unknown";
}

std::string to_string(const Problem& problem) {
    std::string text = to_string(problem.place.origin) + ": " + problem.what;
    append_excerpt(text, problem.place);
    if (!problem.allowed.empty()) text += "\n    allowed: " + problem.allowed;
    if (!problem.nearest.empty()) text += "\n    nearest: " + problem.nearest;
    return text;
}

void Problems::throw_if_any() const {
    if (problems_.empty()) return;
    std::vector<const Problem*> ordered;
    for (const auto& problem : problems_) ordered.push_back(&problem);
    std::stable_sort(ordered.begin(), ordered.end(), [](const Problem* a, const Problem* b) {
        const auto key = [](const Origin& origin) { return std::tuple(origin.kind, origin.line, origin.column); };
        return key(a->place.origin) < key(b->place.origin);
    });
    std::string text;
    if (ordered.size() > 1) text = std::to_string(ordered.size()) + " problems in the pipeline:\n";
    for (size_t i = 0; i < ordered.size() && i < most_problems; ++i) {
        if (i > 0) text += "\n";
        text += to_string(*ordered[i]);
    }
    if (ordered.size() > most_problems) {
        text += "\nand " + std::to_string(ordered.size() - most_problems) + " more";
    }
    throw Error(ErrorKind::config, text);
}

}  // namespace kvplane
