// What comes out of tasks, and the ways to tell it: a report, a table, a chart, a line an item.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/matrix.h"
#include "eval/task_questions.h"
#include "eval/task_score.h"
#include "eval/unit_run.h"
#include "eval/usage.h"

namespace kvplane::tool {

// Of one pipeline.
struct TaskFigures {
    std::vector<TaskScore> tasks;
    Usage usage;
    // Of every question in order, for --samples.
    std::vector<std::vector<ChoiceResult>> choices;

    double mean(Share TaskScore::*share) const {
        double sum = 0;
        for (const TaskScore& task : tasks) sum += (task.*share).value();
        return sum / static_cast<double>(tasks.size());
    }
};

// `first`: what it is compared with.
nlohmann::ordered_json task_report(const Contender& contender, const ContenderResults& results,
                                   const TaskFigures& figures, const TaskFigures& first,
                                   const std::vector<Task>& tasks);

std::string task_table(const Matrix& matrix, const std::vector<Task>& tasks, const std::vector<TaskFigures>& figures);

// Nothing if no file is named. Throws Error(runtime).
void draw_tasks(const std::string& file, int64_t shots, const Matrix& matrix, const std::vector<Task>& tasks,
                const std::vector<TaskFigures>& figures, const std::string& notes);

// A line for each pipeline and item: what every choice got. Nothing if no file is named. Throws Error(runtime).
void write_samples(const std::string& file, const Matrix& matrix, const std::vector<Task>& tasks,
                   const std::vector<TaskFigures>& figures);

}  // namespace kvplane::tool
