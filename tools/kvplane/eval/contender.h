// The pipelines that a comparison is between: each a file with overrides, and the name that it goes by.
#pragma once

#include <string>
#include <vector>

namespace kvplane::tool {

struct Contender {
    std::string label;
    std::string series;  // contenders of one series are one line of the chart
    std::string file;    // empty: the defaults
    std::vector<std::string> overrides;
};

// "FILE,KEY=VALUE,…" as -p takes it; `label` and `series` are keys as well. A piece without "=" belongs to the value before
// it, so that lists may hold commas. Throws Error(usage).
Contender parse_contender(const std::string& text);

// A matrix file: one table for each contender, in the file's order.
//
//     [quest-10]
//     label = "Quest, 10 %"      # default: the table's name
//     series = "Quest"           # default: the pipeline file's name
//     pipeline = "../quest.toml" # from the matrix file's folder; left out: the defaults
//     set = ["kv.quest.share=0.1"]
//
// Throws Error(config) with all that is wrong in it.
std::vector<Contender> read_matrix(const std::string& file);

// Throws Error(usage) where two go by one name; gives the defaults a name.
void check_labels(const std::vector<Contender>& contenders);

}  // namespace kvplane::tool
