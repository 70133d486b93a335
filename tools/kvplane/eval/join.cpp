// kvplane eval join: reports of eval ppl and eval tasks side by side, a row a pipeline, and one chart of all.
#include "eval/join.h"

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "common.h"
#include "eval/chart.h"
#include "eval/table.h"

namespace kvplane::tool {

namespace {

using Json = nlohmann::ordered_json;

struct JoinOptions {
    std::vector<std::string> files;
    std::string chart;
};

// A column of figures; `value` finds it in a pipeline's part of a report.
struct Column {
    std::string heading;
    std::string y_label;
    size_t report;
    bool relative;  // shown against the first pipeline as well
    std::function<double(const Json&)> value;
};

Json read_report(const std::string& file) {
    Json report = Json::parse(read_text_file(file), nullptr, false);
    const bool ours = report.is_object() && report.contains("pipelines") && report["pipelines"].is_array() &&
                      !report["pipelines"].empty();
    if (!ours)
        throw Error(ErrorKind::usage, file + ": is no report; make one with kvplane eval ppl or eval tasks, --json");
    return report;
}

std::vector<Column> columns_of(const Json& report, size_t number) {
    std::vector<Column> columns;
    const Json& first = report["pipelines"][0];
    if (first.contains("perplexity")) {
        columns.push_back({"perplexity at " + report.at("context").dump(), "perplexity", number, true,
                           [](const Json& pipeline) { return pipeline.at("perplexity").get<double>(); }});
        return columns;
    }
    const std::string shots = ", " + report.at("shots").dump() + " shots";
    if (first.at("tasks").size() > 1) {
        columns.push_back({"mean acc" + shots, "accuracy, %", number, false,
                           [](const Json& pipeline) { return 100 * pipeline.at("mean_acc").get<double>(); }});
    }
    for (const auto& [task, figures] : first.at("tasks").items()) {
        columns.push_back({task + " acc", "accuracy, %", number, false, [task = task](const Json& pipeline) {
                               return 100 * pipeline.at("tasks").at(task).at("acc").get<double>();
                           }});
    }
    return columns;
}

const Json* find_pipeline(const Json& report, const std::string& label) {
    for (const Json& pipeline : report["pipelines"]) {
        if (pipeline.value("label", "") == label) return &pipeline;
    }
    return nullptr;
}

std::string table_of(const std::vector<Json>& reports, const std::vector<Column>& columns,
                     const std::vector<std::string>& labels) {
    std::vector<std::string> headings = {"pipeline"};
    for (size_t i = 0; i < columns.size(); ++i) {
        headings.push_back(columns[i].heading);
        if (columns[i].relative) headings.emplace_back("against first");
        const bool last_of_report = i + 1 == columns.size() || columns[i + 1].report != columns[i].report;
        if (last_of_report) headings.emplace_back("relative size");
    }
    Table table(std::move(headings));
    for (const std::string& label : labels) {
        std::vector<std::string> cells = {label};
        for (size_t i = 0; i < columns.size(); ++i) {
            const Column& column = columns[i];
            const Json& report = reports[column.report];
            const Json* pipeline = find_pipeline(report, label);
            const Json& first = report["pipelines"][0];
            cells.push_back(pipeline == nullptr ? "" : fixed(column.value(*pipeline), column.relative ? 3 : 1));
            if (column.relative) {
                const bool shown = pipeline != nullptr && pipeline != &first;
                cells.push_back(shown ? percent_change(column.value(*pipeline), column.value(first)) : "");
            }
            const bool last_of_report = i + 1 == columns.size() || columns[i + 1].report != column.report;
            if (!last_of_report) continue;
            const double size = pipeline == nullptr ? 0 : pipeline->at("kv").at("relative_size").get<double>();
            cells.push_back(pipeline == nullptr ? "" : fixed(100 * size, 1) + " %");
        }
        table.add(std::move(cells));
    }
    return table.text();
}

int join(const JoinOptions& options) {
    check_chart_name(options.chart);
    std::vector<Json> reports;
    for (const std::string& file : options.files) reports.push_back(read_report(file));
    try {
        std::vector<Column> columns;
        std::vector<std::string> labels;
        for (size_t i = 0; i < reports.size(); ++i) {
            for (Column& column : columns_of(reports[i], i)) columns.push_back(std::move(column));
            for (const Json& pipeline : reports[i]["pipelines"]) {
                const std::string label = pipeline.at("label");
                if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
            }
        }
        const std::string text = table_of(reports, columns, labels);
        std::vector<ChartPanel> panels;
        for (const Column& column : columns) {
            ChartPanel panel{column.heading, "bytes read a token, % of the first", column.y_label, true, {}};
            for (const Json& pipeline : reports[column.report]["pipelines"]) {
                panel.points.push_back({pipeline.at("series"), pipeline.at("label"),
                                        100 * pipeline.at("kv").at("relative_size").get<double>(),
                                        column.value(pipeline)});
            }
            panels.push_back(std::move(panel));
        }
        write_chart(options.chart, "Quality against relative KV size", panels, text);
        std::cout << text;
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorKind::usage, std::string("a report lacks what eval writes: ") + error.what());
    }
    return 0;
}

}  // namespace

void add_eval_join(CLI::App& eval, Action& action) {
    auto options = std::make_shared<JoinOptions>();
    CLI::App* command = eval.add_subcommand("join", "Put reports (--json) of eval ppl and eval tasks side by side");
    command->add_option("files", options->files, "reports")->required();
    command->add_option("--chart", options->chart, "picture to write, .svg or .html");
    command->callback([options, &action] { action = [options] { return join(*options); }; });
}

}  // namespace kvplane::tool
