// kvplane eval ppl: perplexity of a text, prompts dense, what follows decoded token by token under the strategy.
#include <cmath>
#include <iomanip>
#include <iostream>

#include "base/error.h"
#include "command.h"
#include "observe/progress.h"
#include "session.h"
#include "signals.h"

namespace kvplane::tool {

namespace {

struct PerplexityOptions {
    ModelOptions model;
    std::string text;
    int64_t context = 2048;
    int64_t prompt = 0;
    int64_t windows = 0;
    int64_t recall_every = 64;
    bool json = false;
};

// -log p(token), in double: a sum of thousands of them is reported.
double loss(std::span<const float> logits, int32_t token) {
    float most = logits[0];
    for (float logit : logits) most = std::max(most, logit);
    double sum = 0;
    for (float logit : logits) sum += std::exp(logit - most);
    return std::log(sum) + most - logits[static_cast<size_t>(token)];
}

int perplexity(const PerplexityOptions& options) {
    Session session = open_session(options.model, 1, options.context);
    Engine& engine = *session.engine;
    engine.should_stop = [] { return caught_signal() != 0; };
    engine.recall_meter().set_every(static_cast<uint64_t>(options.recall_every));
    const std::vector<int32_t> ids = session.tokenizer->encode(read_text_file(options.text), false);
    const auto in_text = static_cast<int64_t>(ids.size()) / options.context;
    if (in_text == 0) {
        throw Error(ErrorKind::usage, options.text + ": has " + std::to_string(ids.size()) +
                                          " tokens, fewer than one window of " + std::to_string(options.context) +
                                          "; lower --context");
    }
    if (options.prompt >= options.context - 1) {
        throw Error(ErrorKind::usage, "--prompt " + std::to_string(options.prompt) + " leaves no token of --context " +
                                          std::to_string(options.context) + " to predict");
    }
    const int64_t windows = options.windows > 0 ? std::min(options.windows, in_text) : in_text;
    double sum = 0;
    int64_t count = 0;
    std::vector<double> by_window;
    Progress progress("perplexity", static_cast<uint64_t>(windows * options.context), "tokens");
    for (int64_t window = 0; window < windows && caught_signal() == 0; ++window) {
        const auto begin = ids.begin() + window * options.context;
        const std::vector<int32_t> part(begin, begin + options.context);
        const int64_t prompt = options.prompt > 0 ? options.prompt : options.context;
        double window_sum = 0;
        int64_t window_count = 0;
        engine.evaluate(part, prompt, options.prompt, [&](int64_t position, std::span<float> logits) {
            if (position + 1 >= options.context) return;
            window_sum += loss(logits, part[static_cast<size_t>(position + 1)]);
            ++window_count;
            progress.update(static_cast<uint64_t>(window * options.context + position));
        });
        if (window_count == 0) break;  // stopped by a signal
        by_window.push_back(std::exp(window_sum / static_cast<double>(window_count)));
        sum += window_sum;
        count += window_count;
    }
    progress.finish();
    if (caught_signal() != 0) return 128 + caught_signal();
    const double result = std::exp(sum / static_cast<double>(count));
    if (options.json) {
        nlohmann::ordered_json report = {{"perplexity", result},
                                         {"tokens", count},
                                         {"windows", windows},
                                         {"context", options.context},
                                         {"prompt", options.prompt},
                                         {"perplexity_by_window", by_window},
                                         {"prefill_tokens_per_second", engine.statistics().prefill_rate()},
                                         {"decode_tokens_per_second", engine.statistics().decode_rate()}};
        report.update(memory_report(engine));
        report["kv"]["recall"] = engine.recall_meter().recall();
        report["kv"]["kept_attention_mass"] = engine.recall_meter().kept_mass();
        report["kv"]["recall_samples"] = engine.recall_meter().samples();
        print_json(std::move(report));
    } else {
        const Statistics& statistics = engine.statistics();
        std::cout << std::fixed << "perplexity " << std::setprecision(4) << result << " over " << count << " tokens of "
                  << windows << " windows; KV read " << std::setprecision(2) << 100 * statistics.share_read()
                  << " %, moved " << 100 * statistics.share_moved() << " %, recall "
                  << 100 * engine.recall_meter().recall() << " %, attention mass kept "
                  << 100 * engine.recall_meter().kept_mass() << " %; " << engine.strategy_summary() << "\n";
    }
    return 0;
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
    CLI::App* eval = app.add_subcommand("eval", "Measure the quality of a pipeline");
    eval->require_subcommand(1);
    auto options = std::make_shared<PerplexityOptions>();
    CLI::App* command = eval->add_subcommand("ppl", "Perplexity of a text file, in windows that do not overlap");
    add_model_options(*command, options->model);
    command->add_option("--text", options->text, "text file")->required();
    command->add_option("--context", options->context, "tokens of a window")->check(CLI::Range(2, 1 << 24));
    command->add_option("--prompt", options->prompt, "tokens of a window that are a prompt; 0: all, and all rows count")
        ->check(CLI::Range(0, 1 << 24));
    command->add_option("--windows", options->windows, "how many windows from the start; 0: all of the text")
        ->check(CLI::Range(0, 1 << 24));
    command
        ->add_option("--recall-every", options->recall_every,
                     "compare with dense attention at every Nth decode step (recall, attention mass kept); 0: never")
        ->check(CLI::Range(0, 1 << 24));
    command->add_flag("--json", options->json, "one JSON object on standard output");
    command->callback([options, &action] { action = [options] { return perplexity(*options); }; });
}

}  // namespace kvplane::tool
