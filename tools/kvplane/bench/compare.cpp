// kvplane bench compare OLD.json NEW.json. A cell counts as changed when the median moved by more than the tolerance and
// no run of one side came near the other's: the runs' ranges do not overlap.
#include "bench/compare.h"

#include <cmath>
#include <iomanip>
#include <iostream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "common.h"
#include "observe/terminal.h"

namespace kvplane::tool {

namespace {

using json = nlohmann::ordered_json;

constexpr int exit_slower = 7;

struct CompareOptions {
    std::string old_file, new_file;
    double tolerance = 0.03;
    bool json = false;
};

struct Speed {
    std::string pipeline, cell;
    double median, least, most;
};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
    throw Error(ErrorKind::usage, path + ": " + what + "; give a file that kvplane bench -o json wrote");
}

double rate(const std::string& path, const json& row, const char* key) {
    const auto value = row.find(key);
    if (value == row.end() || !value->is_number()) refuse(path, std::string("a result has no number ") + key);
    const double number = value->get<double>();
    if (!std::isfinite(number) || number <= 0) refuse(path, std::string(key) + " is not above zero");
    return number;
}

std::vector<Speed> read_speeds(const std::string& path) {
    const json document = json::parse(read_text_file(path), nullptr, false);
    if (document.is_discarded()) refuse(path, "is no JSON");
    const auto results = document.is_object() ? document.find("results") : document.end();
    if (!document.is_object() || results == document.end() || !results->is_array()) refuse(path, "has no results");
    std::vector<Speed> speeds;
    std::set<std::pair<std::string, std::string>> seen;
    for (const json& row : *results) {
        if (!row.is_object() || !row.contains("cell") || !row.at("cell").is_string()) {
            refuse(path, "a result has no cell");
        }
        Speed speed;
        speed.cell = row.at("cell").get<std::string>();
        if (row.contains("pipeline") && row.at("pipeline").is_string()) {
            speed.pipeline = row.at("pipeline").get<std::string>();
        }
        speed.median = rate(path, row, "median");
        speed.least = rate(path, row, "min");
        speed.most = rate(path, row, "max");
        if (speed.least > speed.median || speed.median > speed.most) {
            refuse(path, "cell " + speed.cell + " has its median outside min and max");
        }
        if (!seen.insert({speed.pipeline, speed.cell}).second) refuse(path, "cell " + speed.cell + " stands twice");
        speeds.push_back(speed);
    }
    if (speeds.empty()) refuse(path, "has no results");
    return speeds;
}

bool one_pipeline(const std::vector<Speed>& speeds) {
    for (const Speed& speed : speeds) {
        if (speed.pipeline != speeds.front().pipeline) return false;
    }
    return true;
}

std::string fixed(double value, int digits) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(digits) << value;
    return text.str();
}

json compared(const Speed& was, const Speed& is, double tolerance) {
    const double ratio = is.median / was.median;
    const char* verdict = "same";
    if (ratio > 1 + tolerance && is.least > was.most) verdict = "faster";
    if (ratio < 1 - tolerance && is.most < was.least) verdict = "slower";
    return {{"pipeline", is.pipeline},
            {"cell", is.cell},
            {"old", was.median},
            {"new", is.median},
            {"ratio", ratio},
            {"ratio_min", is.least / was.most},
            {"ratio_max", is.most / was.least},
            {"verdict", verdict}};
}

void print_table(const json& rows, const json& unmatched, const std::string& verdict) {
    std::cout << "| pipeline | cell | old tok/s | new tok/s | ratio | least to most | verdict |\n"
                 "|---|---|---|---|---|---|---|\n";
    const auto number = [](const json& row, const char* key, int digits) {
        return fixed(row.at(key).get<double>(), digits);
    };
    for (const json& row : rows) {
        const std::string line = "| " + row.at("pipeline").get<std::string>() + " | " +
                                 row.at("cell").get<std::string>() + " | " + number(row, "old", 1) + " | " +
                                 number(row, "new", 1) + " | " + number(row, "ratio", 3) + " | " +
                                 number(row, "ratio_min", 3) + "-" + number(row, "ratio_max", 3) + " | " +
                                 row.at("verdict").get<std::string>() + " |";
        std::cout << printable(line) << "\n";
    }
    for (const json& cell : unmatched) {
        std::cout << "only in "
                  << printable(cell.at("file").get<std::string>() + ": " + cell.at("cell").get<std::string>()) << "\n";
    }
    std::cout << verdict << std::endl;
}

int compare(const CompareOptions& options) {
    const std::vector<Speed> before = read_speeds(options.old_file), after = read_speeds(options.new_file);
    // Where each side has one pipeline, the two are compared, whatever their names.
    const bool by_cell_alone = one_pipeline(before) && one_pipeline(after);
    json rows = json::array(), unmatched = json::array();
    std::set<const Speed*> matched;
    size_t faster = 0, slower = 0;
    for (const Speed& is : after) {
        const Speed* found = nullptr;
        for (const Speed& was : before) {
            if (was.cell == is.cell && (by_cell_alone || was.pipeline == is.pipeline)) found = &was;
        }
        if (found == nullptr) {
            unmatched.push_back({{"file", options.new_file}, {"cell", is.cell}, {"pipeline", is.pipeline}});
            continue;
        }
        matched.insert(found);
        rows.push_back(compared(*found, is, options.tolerance));
        faster += rows.back().at("verdict") == "faster" ? 1 : 0;
        slower += rows.back().at("verdict") == "slower" ? 1 : 0;
    }
    for (const Speed& was : before) {
        if (!matched.contains(&was)) {
            unmatched.push_back({{"file", options.old_file}, {"cell", was.cell}, {"pipeline", was.pipeline}});
        }
    }
    if (rows.empty()) {
        throw Error(ErrorKind::usage,
                    options.old_file + " and " + options.new_file + " have no cell of a pipeline in common");
    }
    const std::string count = std::to_string(slower) + " slower, " + std::to_string(faster) + " faster, " +
                              std::to_string(rows.size() - slower - faster) + " the same within the spread or " +
                              fixed(options.tolerance * 100, 1) + " %";
    const std::string verdict = (slower > 0 ? "SLOWER: " : faster > 0 ? "FASTER: " : "SAME: ") + count;
    if (options.json) {
        print_json({{"verdict", slower > 0   ? "slower"
                                : faster > 0 ? "faster"
                                             : "same"},
                    {"tolerance", options.tolerance},
                    {"results", rows},
                    {"unmatched", unmatched}});
    } else {
        print_table(rows, unmatched, verdict);
    }
    return slower > 0 ? exit_slower : 0;
}

}  // namespace

void add_bench_compare(CLI::App& bench, Action& action) {
    auto options = std::make_shared<CompareOptions>();
    CLI::App* command =
        bench.add_subcommand("compare", "Two results of kvplane bench -o json: exit code 7 if a cell is slower");
    command->add_option("old", options->old_file, "result to compare with")->required();
    command->add_option("new", options->new_file, "result to judge")->required();
    command->add_option("--tolerance", options->tolerance, "share by which a median may differ and count as the same")
        ->check(CLI::Range(0.0, 1.0));
    command->add_flag("--json", options->json, "one JSON object on standard output");
    command->callback([options, &action] { action = [options] { return compare(*options); }; });
}

}  // namespace kvplane::tool
