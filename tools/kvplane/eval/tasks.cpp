// kvplane eval tasks: multiple-choice items under several pipelines. Contexts are read in full; what follows their last token
// but `decode_last` is decoded under the strategy, many choices side by side.
#include "eval/tasks.h"

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "eval/chart.h"
#include "eval/fingerprint.h"
#include "eval/log_likelihood.h"
#include "eval/shared_texts.h"
#include "eval/task_figures.h"
#include "eval/task_questions.h"
#include "eval/unit_run.h"
#include "eval/usage.h"
#include "signals.h"

namespace kvplane::tool {

namespace {

struct TaskOptions : ReportOptions {
    MatrixOptions matrix;
    TaskForm form;
    std::string samples;
    std::vector<std::string> tasks;
    int64_t batch = 16;
};

// `beginning`: ids that all contexts of the task begin with.
nlohmann::json evaluate_questions(Engine& engine, SharedTexts& texts, std::span<const int32_t> beginning,
                                  std::span<const Question> questions, int64_t decode_last) {
    std::vector<std::vector<ChoiceResult>> results;
    for (const Question& question : questions) results.emplace_back(question.choices.size());
    std::vector<Branch> batch;
    for (size_t i = 0; i < questions.size(); ++i) {
        for (size_t choice = 0; choice < questions[i].choices.size(); ++choice) {
            const ChoiceRequest& request = questions[i].choices[choice];
            ChoiceResult& result = results[i][choice];
            Branch one;
            one.ids = std::span(request.ids).first(request.ids.size() - 1);
            one.prompt_tokens = prompt_of(request, decode_last);
            one.first = request.context_tokens - 1;
            one.on_logits = [&result, &request](int64_t position, std::span<float> logits) {
                const int32_t token = request.ids[static_cast<size_t>(position + 1)];
                result.log_likelihood += log_likelihood(logits, token);
                const float most = *std::max_element(logits.begin(), logits.end());
                result.greedy = result.greedy && logits[static_cast<size_t>(token)] == most;
            };
            batch.push_back(std::move(one));
        }
    }
    const Usage before = Usage::of(engine);
    if (!texts.evaluate(beginning, std::move(batch))) return {};
    nlohmann::json made = {{"items", nlohmann::json::array()}, {"usage", Usage::of(engine).since(before).to_json()}};
    for (const auto& choices : results) {
        nlohmann::json sums = nlohmann::json::array(), greedy = nlohmann::json::array();
        for (const ChoiceResult& choice : choices) {
            sums.push_back(choice.log_likelihood);
            greedy.push_back(choice.greedy);
        }
        made["items"].push_back({{"log_likelihoods", sums}, {"greedy", greedy}});
    }
    return made;
}

struct Plan {
    std::vector<Unit> units;
    std::vector<std::pair<size_t, size_t>> of;  // task and first question of each unit
    EngineLimits limits;
};

Plan plan_units(const TaskOptions& options, const std::vector<Task>& tasks) {
    Plan plan;
    for (size_t number = 0; number < tasks.size(); ++number) {
        const std::vector<Question>& questions = tasks[number].questions;
        for (size_t first = 0; first < questions.size(); first += static_cast<size_t>(options.batch)) {
            const size_t n = std::min(questions.size() - first, static_cast<size_t>(options.batch));
            const auto part = std::span(questions).subspan(first, n);
            std::string key =
                "tasks " + std::to_string(options.form.decode_last) + " " + std::to_string(options.recall_every) + "\n";
            uint64_t tokens = 0;
            int64_t sequences = 0;
            for (const Question& question : part) {
                for (const ChoiceRequest& choice : question.choices) {
                    key += std::to_string(choice.context_tokens) + " " + fingerprint_of(std::span(choice.ids)) + "\n";
                    tokens += choice.ids.size() - tasks[number].beginning;
                    plan.limits.context = std::max(plan.limits.context, static_cast<int64_t>(choice.ids.size()));
                    ++sequences;
                }
            }
            plan.limits.max_sequences = std::max(plan.limits.max_sequences, sequences + 1);
            plan.of.emplace_back(number, first);
            plan.units.push_back(
                {std::move(key),
                 {{"task", tasks[number].name}, {"shots", options.form.shots}, {"items", {first, first + n}}},
                 tokens});
        }
    }
    return plan;
}

TaskFigures gather(const ContenderResults& results, const Plan& plan, const std::vector<Task>& tasks) {
    TaskFigures figures;
    figures.tasks.resize(tasks.size());
    try {
        for (size_t unit = 0; unit < results.units.size(); ++unit) {
            const auto [task, first] = plan.of[unit];
            size_t number = first;
            for (const nlohmann::json& item : results.units[unit].at("items")) {
                const Question& question = tasks[task].questions.at(number++);
                std::vector<ChoiceResult> choices;
                for (size_t i = 0; i < question.choices.size(); ++i) {
                    choices.push_back(
                        {item.at("log_likelihoods").at(i).get<double>(), item.at("greedy").at(i).get<bool>()});
                }
                const ChoiceRequest& gold = question.choices[question.item.gold];
                figures.tasks[task].add(question.item, choices,
                                        gold.ids.size() - static_cast<size_t>(gold.context_tokens));
                figures.choices.push_back(std::move(choices));
            }
            figures.usage.add(Usage::from_json(results.units[unit].at("usage")));
        }
    } catch (const std::exception& error) {
        throw Error(ErrorKind::usage, std::string("a result in the file of --resume is damaged: ") + error.what());
    }
    return figures;
}

int evaluate_tasks(const TaskOptions& options) {
    check_chart_name(options.chart);
    Matrix matrix(options.matrix);
    std::vector<Task> tasks;
    for (const std::string& name : options.tasks) tasks.push_back(read_task(options.form, name, matrix.tokenizer()));
    const Plan plan = plan_units(options, tasks);
    Results results(options.resume);
    const auto found = run_units(matrix, results, plan.limits, plan.units, [&](Engine& engine) -> Worker {
        engine.recall_meter().set_every(static_cast<uint64_t>(options.recall_every));
        const auto texts = std::make_shared<SharedTexts>(engine, plan.limits.context);
        return [&, texts](size_t unit) {
            const auto [number, first] = plan.of[unit];
            const Task& task = tasks[number];
            const size_t n = std::min(task.questions.size() - first, static_cast<size_t>(options.batch));
            const auto beginning = std::span(task.questions.front().choices.front().ids).first(task.beginning);
            return evaluate_questions(engine, *texts, beginning, std::span(task.questions).subspan(first, n),
                                      options.form.decode_last);
        };
    });
    if (!found) return 128 + caught_signal();

    std::vector<TaskFigures> figures;
    for (const ContenderResults& one : *found) figures.push_back(gather(one, plan, tasks));
    const std::string text = task_table(matrix, tasks, figures);
    draw_tasks(options.chart, options.form.shots, matrix, tasks, figures, text);
    write_samples(options.samples, matrix, tasks, figures);
    if (!options.json) {
        std::cout << text;
        return 0;
    }
    nlohmann::ordered_json report = {
        {"shots", options.form.shots}, {"limit", options.form.limit}, {"decode_last", options.form.decode_last}};
    report["pipelines"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < figures.size(); ++i) {
        report["pipelines"].push_back(task_report(matrix.contender(i), (*found)[i], figures[i], figures[0], tasks));
    }
    // With one pipeline and one task its figures stand at the top as well.
    if (figures.size() == 1 && tasks.size() == 1) report.update(figures[0].tasks[0].report());
    print_json(std::move(report));
    return 0;
}

}  // namespace

void add_eval_tasks(CLI::App& eval, Action& action) {
    auto options = std::make_shared<TaskOptions>();
    CLI::App* command =
        eval.add_subcommand("tasks", "Accuracy on multiple-choice tasks, of one pipeline or of several");
    add_matrix_options(*command, options->matrix);
    const auto count = CLI::Range(0, 1 << 24);
    command->add_option("--data", options->form.data, "folder of the tasks' files, NAME.jsonl")->required();
    command->add_option("--task", options->tasks, "name of a task; may be repeated, or a list with commas")
        ->required()
        ->delimiter(',')
        ->take_all();
    command->add_option("--shots", options->form.shots, "solved items before each, the first of the file")
        ->check(CLI::Range(0, 1000));
    command->add_option("--limit", options->form.limit, "how many items after the shots; 0: all")->check(count);
    command->add_option("--batch", options->batch, "items whose choices decode side by side")->check(CLI::Range(1, 64));
    command
        ->add_option("--decode-last", options->form.decode_last,
                     "last tokens of the context that are decoded under the strategy, as those of the choice are")
        ->check(CLI::Range(1, 1 << 24));
    command->add_option("--samples", options->samples, "file to write: each item's log-likelihoods (JSON Lines)");
    add_report_options(*command, *options);
    command->callback([options, &action] { action = [options] { return evaluate_tasks(*options); }; });
}

}  // namespace kvplane::tool
