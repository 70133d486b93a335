// Results as rows, and the four ways in which they are written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/session.h"
#include "bench/cell_run.h"

namespace kvplane::tool {

// What a cell gave on one pipeline; flat, in the order of columns. `read_limits`: bytes a second, between the runs.
nlohmann::ordered_json result_row(const std::string& pipeline, const Session& session, const CellRun& run,
                                  const std::vector<double>& read_limits);

class Report {
public:
    // `format`: md, csv, json or jsonl. `facts`: of the machine and the first session.
    Report(std::string format, nlohmann::ordered_json facts) : format_(std::move(format)), facts_(std::move(facts)) {}

    // Formats made of lines write it at once. `profile`: of the cell, null if there is none; in Markdown its table comes
    // after all rows.
    void add(nlohmann::ordered_json row, nlohmann::ordered_json profile);
    void finish();

private:
    void write_line(const nlohmann::ordered_json& row);

    std::string format_;
    nlohmann::ordered_json facts_;
    nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace kvplane::tool
