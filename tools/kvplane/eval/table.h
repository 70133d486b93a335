// A table as Markdown writes it, its columns aligned for a terminal.
#pragma once

#include <string>
#include <vector>

namespace kvplane::tool {

class Table {
public:
    explicit Table(std::vector<std::string> headings) : rows_{std::move(headings)} {}
    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
    // The first column to the left, the others to the right.
    std::string text() const;

private:
    std::vector<std::vector<std::string>> rows_;
};

std::string fixed(double value, int decimals);
// "+1.25 %" for 1.0125 against 1.
std::string percent_change(double value, double reference, int decimals = 2);

}  // namespace kvplane::tool
