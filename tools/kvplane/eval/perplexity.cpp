// kvplane eval ppl: perplexity of a text under several pipelines. What stands before a window's prompt end is read in full;
// every later row attends as a decode step would, many windows side by side.
#include "eval/perplexity.h"

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "eval/chart.h"
#include "eval/fingerprint.h"
#include "eval/log_likelihood.h"
#include "eval/perplexity_figures.h"
#include "eval/perplexity_windows.h"
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

    std::vector<PerplexityFigures> figures;
    for (const ContenderResults& one : *found) figures.push_back(perplexity_figures(one, static_cast<size_t>(places)));
    nlohmann::ordered_json report = {
        {"context", windows.context}, {"stride", windows.stride}, {"prompt", windows.prompt}, {"windows", windows.n}};
    report["pipelines"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < figures.size(); ++i) {
        report["pipelines"].push_back(
            perplexity_report(matrix.contender(i), (*found)[i], figures[i], figures[0], windows));
    }
    const std::string text = perplexity_tables(report["pipelines"], figures);
    draw_perplexity(options.chart, report, text);
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
