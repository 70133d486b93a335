#include "eval/task_figures.h"

#include <fstream>
#include <functional>

#include "base/error.h"
#include "eval/chart.h"
#include "eval/table.h"

namespace kvplane::tool {

namespace {

std::string with_error(const Share& share) {
    return fixed(100 * share.value(), 1) + " ± " + fixed(100 * share.error(), 1);
}

}  // namespace

nlohmann::ordered_json task_report(const Contender& contender, const ContenderResults& results,
                                   const TaskFigures& figures, const TaskFigures& first,
                                   const std::vector<Task>& tasks) {
    nlohmann::ordered_json by_task;
    for (size_t i = 0; i < tasks.size(); ++i) by_task[tasks[i].name] = figures.tasks[i].report();
    nlohmann::ordered_json report = {{"label", contender.label},
                                     {"series", contender.series},
                                     {"pipeline", contender.file},
                                     {"overrides", contender.overrides},
                                     {"strategy", results.strategy},
                                     {"strategy_settings", results.settings},
                                     {"mean_acc", figures.mean(&TaskScore::acc)},
                                     {"mean_acc_norm", figures.mean(&TaskScore::acc_norm)}};
    report["tasks"] = by_task;
    report["seconds"] = results.seconds;
    report["kv"] = figures.usage.report(first.usage);
    return report;
}

std::string task_table(const Matrix& matrix, const std::vector<Task>& tasks, const std::vector<TaskFigures>& figures) {
    std::vector<std::string> headings = {"pipeline"};
    for (const Task& task : tasks) {
        headings.push_back(task.name + " acc");
        headings.emplace_back("acc_norm");
        headings.emplace_back("exact");
    }
    if (tasks.size() > 1) headings.insert(headings.end(), {"mean acc", "mean acc_norm"});
    for (std::string& heading : usage_headings()) headings.push_back(std::move(heading));
    Table table(std::move(headings));
    for (size_t i = 0; i < figures.size(); ++i) {
        std::vector<std::string> cells = {matrix.contender(i).label};
        for (const TaskScore& score : figures[i].tasks) {
            cells.insert(cells.end(),
                         {with_error(score.acc), with_error(score.acc_norm), fixed(100 * score.exact.value(), 1)});
        }
        if (tasks.size() > 1) {
            cells.push_back(fixed(100 * figures[i].mean(&TaskScore::acc), 1));
            cells.push_back(fixed(100 * figures[i].mean(&TaskScore::acc_norm), 1));
        }
        for (std::string& cell : usage_cells(figures[i].usage, figures[0].usage)) cells.push_back(std::move(cell));
        table.add(std::move(cells));
    }
    return table.text();
}

void draw_tasks(const std::string& file, int64_t shots, const Matrix& matrix, const std::vector<Task>& tasks,
                const std::vector<TaskFigures>& figures, const std::string& notes) {
    if (file.empty()) return;
    const auto panel = [&](const std::string& title, const std::function<double(const TaskFigures&)>& value) {
        ChartPanel made{title, "bytes read a token, % of the first", "accuracy, %", true, {}};
        for (size_t i = 0; i < figures.size(); ++i) {
            const Contender& contender = matrix.contender(i);
            const double size = 100 * figures[i].usage.relative_size(figures[0].usage);
            made.points.push_back({contender.series, contender.label, size, 100 * value(figures[i])});
        }
        return made;
    };
    std::vector<ChartPanel> panels;
    if (tasks.size() > 1) panels.push_back(panel("mean", [](const TaskFigures& f) { return f.mean(&TaskScore::acc); }));
    for (size_t i = 0; i < tasks.size(); ++i) {
        panels.push_back(panel(tasks[i].name, [i](const TaskFigures& f) { return f.tasks[i].acc.value(); }));
    }
    write_chart(file, "Accuracy, " + std::to_string(shots) + " shots", panels, notes);
}

void write_samples(const std::string& file, const Matrix& matrix, const std::vector<Task>& tasks,
                   const std::vector<TaskFigures>& figures) {
    if (file.empty()) return;
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    for (size_t i = 0; i < figures.size(); ++i) {
        size_t number = 0;
        for (const Task& task : tasks) {
            for (const Question& question : task.questions) {
                nlohmann::ordered_json line = {{"pipeline", matrix.contender(i).label},
                                               {"task", task.name},
                                               {"line", question.item.line},
                                               {"gold", question.item.gold}};
                for (const ChoiceResult& choice : figures[i].choices[number]) {
                    line["log_likelihoods"].push_back(choice.log_likelihood);
                    line["greedy"].push_back(choice.greedy);
                }
                out << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
                ++number;
            }
        }
    }
    out.close();
    if (!out) throw Error(ErrorKind::runtime, "--samples " + file + ": cannot be written; is its folder there?");
}

}  // namespace kvplane::tool
