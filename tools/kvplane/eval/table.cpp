#include "eval/table.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace kvplane::tool {

namespace {

// Characters, not bytes: a label may be any UTF-8.
size_t width_of(const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// A cell must not end early.
std::string escaped(const std::string& cell) {
    std::string text;
    for (char c : cell) {
        if (c == '|') text += '\\';
        text += c == '\n' || c == '\r' ? ' ' : c;
    }
    return text;
}

std::string formatted(const char* format, int decimals, double value) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), format, decimals, value);
    return text.data();
}

}  // namespace

std::string Table::text() const {
    std::vector<size_t> widths(rows_.front().size(), 3);
    for (const auto& row : rows_) {
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(escaped(row[i])));
    }
    std::string text;
    for (size_t number = 0; number < rows_.size(); ++number) {
        text += "|";
        for (size_t i = 0; i < widths.size(); ++i) {
            const std::string cell = i < rows_[number].size() ? escaped(rows_[number][i]) : "";
            const std::string space(widths[i] - width_of(cell), ' ');
            text += " " + (i == 0 ? cell + space : space + cell) + " |";
        }
        text += "\n";
        if (number > 0) continue;
        text += "|";
        for (size_t i = 0; i < widths.size(); ++i)
            text += i == 0 ? std::string(widths[i] + 2, '-') + "|" : std::string(widths[i] + 1, '-') + ":|";
        text += "\n";
    }
    return text;
}

std::string fixed(double value, int decimals) {
    return formatted("%.*f", decimals, value);
}

std::string percent_change(double value, double reference, int decimals) {
    return reference == 0 ? "" : formatted("%+.*f", decimals, 100 * (value / reference - 1)) + " %";
}

}  // namespace kvplane::tool
