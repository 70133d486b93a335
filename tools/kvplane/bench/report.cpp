#include "bench/report.h"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "bench/median.h"
#include "bench/profile.h"
#include "common.h"
#include "observe/terminal.h"

namespace kvplane::tool {

namespace {

using json = nlohmann::ordered_json;

// RFC 4180.
std::string csv_field(const json& value) {
    if (!value.is_string()) return value.dump();
    const std::string text = value.get<std::string>();
    if (text.find_first_of("\",\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
}

std::string fixed(double value, int digits) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(digits) << value;
    return text.str();
}

std::string number(const json& row, const char* key, double factor = 1, int digits = 1) {
    return fixed(row.at(key).get<double>() * factor, digits);
}

std::string md_line(const json& row) {
    std::string line = "|";
    for (const char* key : {"pipeline", "cell", "n_prompt", "n_gen", "n_depth", "sequences"}) {
        line += " " + (row.at(key).is_string() ? row.at(key).get<std::string>() : row.at(key).dump()) + " |";
    }
    for (const char* key : {"median", "min", "max"}) line += " " + number(row, key) + " |";
    return line + " " + number(row, "spread", 100) + " % | " + number(row, "bytes_per_token", 1e-6, 2) + " | " +
           number(row, "share_of_read_limit", 100, 0) + " % | " + row.at("runs").dump() + " |";
}

}  // namespace

json result_row(const std::string& pipeline, const Session& session, const CellRun& run,
                const std::vector<double>& read_limits) {
    const Cell& cell = run.cell();
    const auto [least, most] = std::minmax_element(run.rates().begin(), run.rates().end());
    const double middle = median(run.rates()), read_limit = median(read_limits);
    const Traffic traffic = run.traffic();
    return {{"cell", cell.name},
            {"pipeline", pipeline},
            {"strategy", session.engine->strategy_id()},
            {"kv_type", session.plugins.codec->id()},
            {"n_prompt", cell.prefill ? cell.tokens : 0},
            {"n_gen", cell.prefill ? 0 : cell.tokens},
            {"n_depth", cell.depth},
            {"sequences", cell.sequences},
            {"median", middle},
            {"min", *least},
            {"max", *most},
            {"spread", (*most - *least) / middle},
            {"runs", run.rates().size()},
            {"bytes_per_token", traffic.bytes_per_token()},
            {"weight_bytes_per_token", traffic.weights},
            {"kv_bytes_per_token", traffic.kv},
            {"kv_bytes_basis", traffic.kv_basis},
            {"index_bytes_per_token", traffic.index},
            {"read_limit_bytes_per_second", read_limit},
            {"share_of_read_limit", middle * traffic.bytes_per_token() / read_limit}};
}

void Report::add(json row, json profile) {
    if (!profile.is_null()) row["profile"] = std::move(profile);
    if (format_ != "json") write_line(row);
    rows_.push_back(std::move(row));
}

void Report::write_line(const json& row) {
    const bool first = rows_.empty();
    if (format_ == "md") {
        if (first) {
            std::cout
                << "| pipeline | cell | pp | tg | depth | sequences | tok/s median | min | max | spread | MB a token"
                   " | of the read limit | runs |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
        }
        std::cout << printable(md_line(row)) << std::endl;
        return;
    }
    json whole = row;
    whole.update(facts_);
    if (format_ == "jsonl") {
        std::cout << whole.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
        return;
    }
    std::string names, values;
    for (const auto& [key, value] : whole.items()) {
        names += (names.empty() ? "" : ",") + key;
        values += (values.empty() ? "" : ",") + csv_field(value);
    }
    if (first) std::cout << names << "\n";
    std::cout << values << std::endl;
}

void Report::finish() {
    if (format_ == "json") {
        print_json({{"strategy", rows_.at(0).at("strategy")},
                    {"device", facts_.at("device")},
                    {"threads", facts_.at("threads")},
                    {"facts", facts_},
                    {"results", rows_}});
    } else if (format_ == "md") {
        std::vector<double> limits;
        for (const json& row : rows_) limits.push_back(row.at("read_limit_bytes_per_second").get<double>());
        std::cout << "\nread limit: " << fixed(median(limits) * 1e-9, 1) << " GB/s\n";
        for (const auto& [key, value] : facts_.items()) {
            std::cout << key << ": " << printable(value.is_string() ? value.get<std::string>() : value.dump()) << "\n";
        }
        for (const json& row : rows_) {
            if (!row.contains("profile")) continue;
            const std::string title = row.at("cell").get<std::string>() + ", " + row.at("pipeline").get<std::string>();
            std::cout << printable(profile_table(title, row.at("profile")));
        }
    }
}

}  // namespace kvplane::tool
