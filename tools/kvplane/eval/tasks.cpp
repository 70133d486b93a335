// kvplane eval tasks: multiple-choice items under several pipelines. Contexts are read in full; what follows their last token
// but `decode_last` is decoded under the strategy, many choices side by side.
#include "eval/tasks.h"

#include <algorithm>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "eval/chart.h"
#include "eval/fingerprint.h"
#include "eval/log_likelihood.h"
#include "eval/shared_texts.h"
#include "eval/table.h"
#include "eval/task_requests.h"
#include "eval/task_score.h"
#include "eval/unit_run.h"
#include "eval/usage.h"
#include "signals.h"

namespace kvplane::tool {

namespace {

struct TaskOptions : ReportOptions {
    MatrixOptions matrix;
    std::string data, samples;
    std::vector<std::string> tasks;
    int64_t shots = 0;
    int64_t limit = 0;
    int64_t batch = 16;
    int64_t decode_last = 1;
};

struct Question {
    TaskItem item;
    std::vector<ChoiceRequest> choices;
};

struct Task {
    std::string name;
    std::vector<Question> questions;
    size_t beginning = 0;  // how many ids all prompts begin with
};

// Tokens of the prompt, which is read in full.
int64_t prompt_of(const ChoiceRequest& request, int64_t decode_last) {
    return std::max<int64_t>(1, request.context_tokens - decode_last);
}

size_t beginning_of(const std::vector<Question>& questions, int64_t decode_last) {
    std::vector<std::span<const int32_t>> texts;
    size_t shortest = SIZE_MAX;
    for (const Question& question : questions) {
        for (const ChoiceRequest& choice : question.choices) {
            texts.emplace_back(choice.ids);
            shortest = std::min(shortest, static_cast<size_t>(prompt_of(choice, decode_last)));
        }
    }
    return common_beginning(texts, shortest - 1);  // every prompt goes on after it
}

Task read_task(const TaskOptions& options, const std::string& name, const Tokenizer& tokenizer) {
    const std::string file = find_task_file(options.data, name);
    std::vector<TaskItem> items = read_task_items(file);
    const auto shots = static_cast<size_t>(options.shots);
    if (items.size() <= shots) {
        throw Error(ErrorKind::usage, file + ": has " + std::to_string(items.size()) + " items; --shots " +
                                          std::to_string(shots) + " leaves none to score");
    }
    const std::string before = shots_text(items, shots);
    size_t end = items.size();
    if (options.limit > 0) end = std::min(end, shots + static_cast<size_t>(options.limit));
    Task task{name, {}, 0};
    for (size_t i = shots; i < end; ++i) {
        Question question{std::move(items[i]), {}};
        for (size_t choice = 0; choice < question.item.choices.size(); ++choice) {
            question.choices.push_back(
                make_request(tokenizer, before + question.item.context(choice), question.item.choices[choice]));
        }
        task.questions.push_back(std::move(question));
    }
    task.beginning = beginning_of(task.questions, options.decode_last);
    return task;
}

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
                "tasks " + std::to_string(options.decode_last) + " " + std::to_string(options.recall_every) + "\n";
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
                 {{"task", tasks[number].name}, {"shots", options.shots}, {"items", {first, first + n}}},
                 tokens});
        }
    }
    return plan;
}

struct Figures {
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

Figures gather(const ContenderResults& results, const Plan& plan, const std::vector<Task>& tasks) {
    Figures figures;
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

nlohmann::ordered_json report_of(const Contender& contender, const ContenderResults& results, const Figures& figures,
                                 const Figures& first, const std::vector<Task>& tasks) {
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

std::string with_error(const Share& share) {
    return fixed(100 * share.value(), 1) + " ± " + fixed(100 * share.error(), 1);
}

std::string table_of(const Matrix& matrix, const std::vector<Task>& tasks, const std::vector<Figures>& figures) {
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

void draw(const TaskOptions& options, const Matrix& matrix, const std::vector<Task>& tasks,
          const std::vector<Figures>& figures, const std::string& notes) {
    if (options.chart.empty()) return;
    const auto panel = [&](const std::string& title, const std::function<double(const Figures&)>& value) {
        ChartPanel made{title, "bytes read a token, % of the first", "accuracy, %", true, {}};
        for (size_t i = 0; i < figures.size(); ++i) {
            const Contender& contender = matrix.contender(i);
            const double size = 100 * figures[i].usage.relative_size(figures[0].usage);
            made.points.push_back({contender.series, contender.label, size, 100 * value(figures[i])});
        }
        return made;
    };
    std::vector<ChartPanel> panels;
    if (tasks.size() > 1) panels.push_back(panel("mean", [](const Figures& f) { return f.mean(&TaskScore::acc); }));
    for (size_t i = 0; i < tasks.size(); ++i) {
        panels.push_back(panel(tasks[i].name, [i](const Figures& f) { return f.tasks[i].acc.value(); }));
    }
    write_chart(options.chart, "Accuracy, " + std::to_string(options.shots) + " shots", panels, notes);
}

// A line for each pipeline and item: what every choice got.
void write_samples(const std::string& file, const Matrix& matrix, const std::vector<Task>& tasks,
                   const std::vector<Figures>& figures) {
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

int evaluate_tasks(const TaskOptions& options) {
    check_chart_name(options.chart);
    Matrix matrix(options.matrix);
    std::vector<Task> tasks;
    for (const std::string& name : options.tasks) tasks.push_back(read_task(options, name, matrix.tokenizer()));
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
                                      options.decode_last);
        };
    });
    if (!found) return 128 + caught_signal();

    std::vector<Figures> figures;
    for (const ContenderResults& one : *found) figures.push_back(gather(one, plan, tasks));
    const std::string text = table_of(matrix, tasks, figures);
    draw(options, matrix, tasks, figures, text);
    write_samples(options.samples, matrix, tasks, figures);
    if (!options.json) {
        std::cout << text;
        return 0;
    }
    nlohmann::ordered_json report = {
        {"shots", options.shots}, {"limit", options.limit}, {"decode_last", options.decode_last}};
    report["pipelines"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < figures.size(); ++i) {
        report["pipelines"].push_back(report_of(matrix.contender(i), (*found)[i], figures[i], figures[0], tasks));
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
    command->add_option("--data", options->data, "folder of the tasks' files, NAME.jsonl")->required();
    command->add_option("--task", options->tasks, "name of a task; may be repeated, or a list with commas")
        ->required()
        ->delimiter(',')
        ->take_all();
    command->add_option("--shots", options->shots, "solved items before each, the first of the file")
        ->check(CLI::Range(0, 1000));
    command->add_option("--limit", options->limit, "how many items after the shots; 0: all")->check(count);
    command->add_option("--batch", options->batch, "items whose choices decode side by side")->check(CLI::Range(1, 64));
    command
        ->add_option("--decode-last", options->decode_last,
                     "last tokens of the context that are decoded under the strategy, as those of the choice are")
        ->check(CLI::Range(1, 1 << 24));
    command->add_option("--samples", options->samples, "file to write: each item's log-likelihoods (JSON Lines)");
    add_report_options(*command, *options);
    command->callback([options, &action] { action = [options] { return evaluate_tasks(*options); }; });
}

}  // namespace kvplane::tool
