// kvplane eval ppl: perplexity of a text under several pipelines. What stands before a window's prompt end is read in full;
// every later row attends as a decode step would, many windows side by side.
#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/error.h"
#include "eval/chart.h"
#include "eval/fingerprint.h"
#include "eval/log_likelihood.h"
#include "eval/table.h"
#include "eval/texts.h"
#include "eval/unit_run.h"
#include "eval/usage.h"
#include "observe/terminal.h"
#include "signals.h"

namespace kvplane::tool {

namespace {

struct PerplexityOptions : ReportOptions {
    MatrixOptions matrix;
    std::string text;
    int64_t context = 2048;
    int64_t stride = 0;
    int64_t prompt = -1;
    int64_t windows = 0;
    int64_t batch = 8;
    int64_t curve = 8;
};

// The windows of a text: starts, how much of each is a prompt, and which rows count.
struct Windows {
    std::vector<int32_t> ids;
    int64_t context, stride, prompt, n;

    std::span<const int32_t> at(int64_t window) const {
        return std::span(ids).subspan(static_cast<size_t>(window * stride), static_cast<size_t>(context));
    }
    int64_t rows() const { return context - 1 - prompt; }  // that count: each says the token after it
};

Windows find_windows(const PerplexityOptions& options, const Tokenizer& tokenizer) {
    Windows made;
    made.ids = tokenizer.encode(read_text_file(options.text), false);
    made.context = options.context;
    made.stride = options.stride > 0 ? options.stride : options.context;
    made.prompt = options.prompt >= 0 ? options.prompt : options.context - made.stride;
    const auto n_ids = static_cast<int64_t>(made.ids.size());
    if (n_ids < made.context) {
        throw Error(ErrorKind::usage, options.text + ": has " + std::to_string(n_ids) +
                                          " tokens, fewer than one window of " + std::to_string(made.context) +
                                          "; lower --context");
    }
    const int64_t in_text = (n_ids - made.context) / made.stride + 1;
    made.n = options.windows > 0 ? std::min(options.windows, in_text) : in_text;
    return made;
}

void check(const PerplexityOptions& options) {
    check_chart_name(options.chart);
    if (options.prompt >= options.context - 1) {
        throw Error(ErrorKind::usage, "--prompt " + std::to_string(options.prompt) + " leaves no token of --context " +
                                          std::to_string(options.context) + " to predict");
    }
    if (options.stride > options.context) {
        throw Error(ErrorKind::usage, "--stride " + std::to_string(options.stride) + " is more than --context " +
                                          std::to_string(options.context) + ": text between windows would not count");
    }
    if (options.stride == 1) throw Error(ErrorKind::usage, "--stride 1 leaves no token to predict; take 2 or more");
}

// Losses and their numbers, in all and by the place of the row in its window.
struct Losses {
    explicit Losses(size_t places) : by_place(places), counts(places) {}

    double sum() const {
        double sum = 0;
        for (double loss : by_place) sum += loss;
        return sum;
    }
    int64_t count() const {
        int64_t count = 0;
        for (int64_t one : counts) count += one;
        return count;
    }
    double perplexity() const { return std::exp(sum() / static_cast<double>(count())); }
    void add(const Losses& other) {
        for (size_t i = 0; i < counts.size(); ++i) {
            by_place[i] += other.by_place[i];
            counts[i] += other.counts[i];
        }
    }

    std::vector<double> by_place;
    std::vector<int64_t> counts;
};

nlohmann::json evaluate_windows(Engine& engine, const Windows& windows, int64_t first, int64_t end, int64_t places) {
    std::vector<Losses> losses(static_cast<size_t>(end - first), Losses(static_cast<size_t>(places)));
    std::vector<WholeText> batch;
    for (int64_t window = first; window < end; ++window) {
        const std::span<const int32_t> ids = windows.at(window);
        Losses& mine = losses[static_cast<size_t>(window - first)];
        WholeText one;
        one.ids = ids.first(ids.size() - 1);  // the last token is predicted, not read
        one.prompt_tokens = windows.prompt > 0 ? windows.prompt : windows.context;
        one.first = windows.prompt;
        one.on_logits = [&mine, &windows, ids, places](int64_t position, std::span<float> logits) {
            const auto place = static_cast<size_t>((position - windows.prompt) * places / windows.rows());
            mine.by_place[place] -= log_likelihood(logits, ids[static_cast<size_t>(position + 1)]);
            ++mine.counts[place];
        };
        batch.push_back(std::move(one));
    }
    const Usage before = Usage::of(engine);
    if (!evaluate_side_by_side(engine, std::move(batch))) return {};
    nlohmann::json result = {{"windows", nlohmann::json::array()},
                             {"usage", Usage::of(engine).since(before).to_json()}};
    for (int64_t window = first; window < end; ++window) {
        const Losses& mine = losses[static_cast<size_t>(window - first)];
        result["windows"].push_back({{"window", window}, {"loss", mine.by_place}, {"tokens", mine.counts}});
    }
    return result;
}

std::vector<Unit> plan_units(const PerplexityOptions& options, const Windows& windows, int64_t places) {
    std::vector<Unit> units;
    for (int64_t first = 0; first < windows.n; first += options.batch) {
        const int64_t end = std::min(windows.n, first + options.batch);
        const std::string shape = std::to_string(windows.context) + " " + std::to_string(windows.stride) + " " +
                                  std::to_string(windows.prompt) + " " + std::to_string(first) + " " +
                                  std::to_string(end) + " " + std::to_string(places) + " " +
                                  std::to_string(options.recall_every);
        std::string key = "ppl " + shape + "\n";
        for (int64_t window = first; window < end; ++window) key += fingerprint_of(windows.at(window)) + "\n";
        units.push_back({std::move(key),
                         {{"task", "ppl"}, {"context", windows.context}, {"windows", {first, end}}},
                         static_cast<uint64_t>((end - first) * (windows.context - 1))});
    }
    return units;
}

struct Figures {
    explicit Figures(size_t places) : losses(places) {}
    Losses losses;
    std::vector<double> by_window;
    Usage usage;
};

Figures gather(const ContenderResults& results, size_t places) {
    Figures figures(places);
    try {
        for (const nlohmann::json& unit : results.units) {
            for (const nlohmann::json& window : unit.at("windows")) {
                Losses losses(places);
                losses.by_place = window.at("loss").get<std::vector<double>>();
                losses.counts = window.at("tokens").get<std::vector<int64_t>>();
                losses.by_place.resize(places);
                losses.counts.resize(places);
                figures.by_window.push_back(losses.perplexity());
                figures.losses.add(losses);
            }
            figures.usage.add(Usage::from_json(unit.at("usage")));
        }
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorKind::usage, std::string("a result in the file of --resume is damaged: ") + error.what());
    }
    return figures;
}

// First and last row of a place, in the window.
std::pair<int64_t, int64_t> rows_of_place(const Windows& windows, int64_t place, int64_t places) {
    const auto border = [&](int64_t i) { return windows.prompt + (i * windows.rows() + places - 1) / places; };
    return {border(place), border(place + 1)};
}

nlohmann::ordered_json report_of(const Contender& contender, const ContenderResults& results, const Figures& figures,
                                 const Figures& first, const Windows& windows) {
    const double perplexity = figures.losses.perplexity();
    nlohmann::ordered_json curve = nlohmann::ordered_json::array();
    const auto places = static_cast<int64_t>(figures.losses.counts.size());
    for (int64_t place = 0; place < places; ++place) {
        const auto i = static_cast<size_t>(place);
        const auto [begin, end] = rows_of_place(windows, place, places);
        if (figures.losses.counts[i] == 0) continue;
        const double loss = figures.losses.by_place[i] / static_cast<double>(figures.losses.counts[i]);
        curve.push_back(
            {{"from", begin}, {"to", end}, {"tokens", figures.losses.counts[i]}, {"perplexity", std::exp(loss)}});
    }
    return {{"label", contender.label},
            {"series", contender.series},
            {"pipeline", contender.file},
            {"overrides", contender.overrides},
            {"strategy", results.strategy},
            {"strategy_settings", results.settings},
            {"perplexity", perplexity},
            {"relative_perplexity", perplexity / first.losses.perplexity()},
            {"tokens", figures.losses.count()},
            {"perplexity_by_window", figures.by_window},
            {"curve", curve},
            {"prefill_tokens_per_second",
             figures.usage.prefill_seconds > 0 ? figures.usage.prefill_tokens / figures.usage.prefill_seconds : 0},
            {"decode_tokens_per_second",
             figures.usage.decode_seconds > 0 ? figures.usage.decode_tokens / figures.usage.decode_seconds : 0},
            {"seconds", results.seconds},
            {"kv", figures.usage.report(first.usage)}};
}

std::string tables(const nlohmann::ordered_json& pipelines, const std::vector<Figures>& figures) {
    std::vector<std::string> headings = {"pipeline", "perplexity", "against first"};
    for (std::string& heading : usage_headings()) headings.push_back(std::move(heading));
    Table table(std::move(headings));
    for (size_t i = 0; i < figures.size(); ++i) {
        std::vector<std::string> cells = {
            pipelines[i]["label"], fixed(figures[i].losses.perplexity(), 4),
            i == 0 ? "" : percent_change(figures[i].losses.perplexity(), figures[0].losses.perplexity())};
        for (std::string& cell : usage_cells(figures[i].usage, figures[0].usage)) cells.push_back(std::move(cell));
        table.add(std::move(cells));
    }
    std::string text = table.text();
    if (pipelines[0]["curve"].size() < 2) return text;
    headings = {"perplexity at row"};
    for (const auto& place : pipelines[0]["curve"]) headings.push_back(place["from"].dump() + "–" + place["to"].dump());
    Table curves(std::move(headings));
    for (const auto& pipeline : pipelines) {
        std::vector<std::string> cells = {pipeline["label"]};
        for (const auto& place : pipeline["curve"]) cells.push_back(fixed(place["perplexity"], 2));
        curves.add(std::move(cells));
    }
    return text + "\n" + curves.text();
}

void draw(const PerplexityOptions& options, const nlohmann::ordered_json& report, const std::string& notes) {
    if (options.chart.empty()) return;
    ChartPanel size{"against relative KV size", "bytes read a token, % of the first", "perplexity", true, {}};
    ChartPanel place{"against the place in the window", "row", "perplexity", false, {}};
    for (const auto& pipeline : report["pipelines"]) {
        const std::string series = pipeline["series"], label = pipeline["label"];
        const double relative = pipeline["kv"]["relative_size"];
        size.points.push_back({series, label, 100 * relative, pipeline["perplexity"]});
        for (const auto& at : pipeline["curve"]) {
            place.points.push_back(
                {label, label, (at["from"].get<double>() + at["to"].get<double>()) / 2, at["perplexity"]});
        }
    }
    write_chart(options.chart, "Perplexity, context " + std::to_string(options.context), {size, place}, notes);
}

int perplexity(const PerplexityOptions& options) {
    check(options);
    Matrix matrix(options.matrix);
    const Windows windows = find_windows(options, matrix.tokenizer());
    const int64_t places = std::min(options.curve, windows.rows());
    Results results(options.resume);
    const int64_t batch = std::min(options.batch, windows.n);
    const std::vector<Unit> units = plan_units(options, windows, places);
    const auto found =
        run_units(matrix, results, {batch, windows.context, nullptr}, units, [&](Engine& engine) -> Worker {
            engine.recall_meter().set_every(static_cast<uint64_t>(options.recall_every));
            return [&](size_t unit) {
                const int64_t first = static_cast<int64_t>(unit) * options.batch;
                return evaluate_windows(engine, windows, first, std::min(windows.n, first + options.batch), places);
            };
        });
    if (!found) return 128 + caught_signal();

    std::vector<Figures> figures;
    for (const ContenderResults& one : *found) figures.push_back(gather(one, static_cast<size_t>(places)));
    nlohmann::ordered_json report = {
        {"context", windows.context}, {"stride", windows.stride}, {"prompt", windows.prompt}, {"windows", windows.n}};
    report["pipelines"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < figures.size(); ++i) {
        report["pipelines"].push_back(report_of(matrix.contender(i), (*found)[i], figures[i], figures[0], windows));
    }
    const std::string text = tables(report["pipelines"], figures);
    draw(options, report, text);
    if (windows.prompt == 0 && figures.size() > 1) {
        write_stderr(
            "note: no row was decoded, so strategies that read prompts in full all give the dense figure; "
            "give --stride or --prompt\n");
    }
    if (options.json) {
        // With one pipeline its figures stand at the top as well.
        const nlohmann::ordered_json first = report["pipelines"][0];
        if (figures.size() == 1) report.update(first);
        print_json(std::move(report));
    } else {
        std::cout << text;
    }
    return 0;
}

}  // namespace

void add_eval_perplexity(CLI::App& eval, Action& action) {
    auto options = std::make_shared<PerplexityOptions>();
    CLI::App* command =
        eval.add_subcommand("ppl", "Perplexity of a text file in windows, of one pipeline or of several");
    add_matrix_options(*command, options->matrix);
    const auto count = CLI::Range(0, 1 << 24);
    command->add_option("--text", options->text, "text file")->required();
    command->add_option("--context", options->context, "tokens of a window")->check(CLI::Range(2, 1 << 24));
    command->add_option("--stride", options->stride, "tokens from one window to the next; 0: the context")
        ->check(count);
    command
        ->add_option("--prompt", options->prompt,
                     "tokens of a window that are a prompt, read in full; the rows after it are decoded and count. 0: "
                     "all are, and all rows count. Default: what the stride leaves of the context")
        ->check(count);
    command->add_option("--windows", options->windows, "how many windows from the start; 0: all of the text")
        ->check(count);
    command->add_option("--batch", options->batch, "windows that decode side by side")->check(CLI::Range(1, 256));
    command->add_option("--curve", options->curve, "places of the window that get a perplexity of their own")
        ->check(CLI::Range(1, 4096));
    add_report_options(*command, *options);
    command->callback([options, &action] { action = [options] { return perplexity(*options); }; });
}

}  // namespace kvplane::tool
