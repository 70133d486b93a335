#include "bench/cell.h"

#include <charconv>
#include <sstream>
#include <string_view>

#include "base/error.h"

namespace kvplane::tool {

namespace {

// Takes `mark` and the number from `least` to `most` that follows it off the front of `text`; false: they are not
// there.
bool take_number(std::string_view& text, std::string_view mark, int64_t least, int64_t most, int64_t& number) {
    if (!text.starts_with(mark)) return false;
    const char* const begin = text.data() + mark.size();
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    if (error != std::errc() || *begin == '-' || number < least || number > most) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
}

Cell parse_cell(const std::string& name) {
    constexpr int64_t most_tokens = 9'999'999, most_sequences = 999;
    Cell cell;
    cell.name = name;
    std::string_view rest = name;
    if (take_number(rest, "pp", 1, most_tokens, cell.tokens)) {
        cell.prefill = true;
    } else if (take_number(rest, "tg", 1, most_tokens, cell.tokens)) {
        take_number(rest, "@", 0, most_tokens, cell.depth);
        take_number(rest, "x", 1, most_sequences, cell.sequences);
    }
    if (cell.tokens == 0 || !rest.empty()) {
        throw Error(ErrorKind::usage, "--cells: \"" + name + "\" is neither ppN nor tgN@DEPTHxSEQUENCES");
    }
    return cell;
}

}  // namespace

std::vector<Cell> parse_cells(const std::string& text) {
    std::vector<Cell> cells;
    std::istringstream list(text);
    for (std::string name; std::getline(list, name, ',');) cells.push_back(parse_cell(name));
    if (cells.empty()) throw Error(ErrorKind::usage, "--cells is empty; for example pp512,tg64,tg32@4096x4");
    return cells;
}

}  // namespace kvplane::tool
