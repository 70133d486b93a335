// kvplane run: answers one prompt.
#include <array>
#include <charconv>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>

#include "api/answer.h"
#include "base/error.h"
#include "command.h"
#include "observe/progress.h"
#include "observe/terminal.h"
#include "session.h"
#include "signals.h"

namespace kvplane::tool {

namespace {

struct RunOptions {
    ModelOptions model;
    std::string prompt;
    std::string prompt_file;
    std::string ids_file;
    bool chat = false;
    bool ignore_end = false;
    bool json = false;
    int64_t max_tokens = 128;
    double temperature = -1;
    int64_t seed = -1;
    int64_t recall_every = 0;
};

std::vector<int32_t> read_ids(const std::string& path) {
    try {
        return nlohmann::json::parse(read_text_file(path)).get<std::vector<int32_t>>();
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorKind::usage, path + ": is no JSON array of token ids: " + error.what());
    }
}

Prompt read_prompt(const RunOptions& options) {
    Prompt prompt;
    prompt.chat = options.chat;
    if (!options.ids_file.empty()) {
        prompt.ids = read_ids(options.ids_file);
    } else {
        prompt.text = options.prompt_file.empty() ? options.prompt : read_text_file(options.prompt_file);
    }
    return prompt;
}

// std::to_string keeps six digits after the point and no more.
std::string shortest(double number) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

std::string percent(double share) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(1) << 100 * share << " %";
    return text.str();
}

std::string mebibytes(uint64_t bytes) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(1) << static_cast<double>(bytes) / (1 << 20) << " MiB";
    return text.str();
}

// The line that a run ends with.
std::string statistics_line(Session& session, const Answer& made) {
    Engine& engine = *session.engine;
    const Statistics& s = engine.statistics();
    std::ostringstream line;
    line << std::fixed << std::setprecision(1);
    line << "[" << made.prompt_tokens << " prompt tokens in " << 1e3 * s.prefill_seconds << " ms (" << s.prefill_rate()
         << " tok/s), " << made.tokens.size() << " new in " << 1e3 * s.decode_seconds << " ms (" << s.decode_rate()
         << " tok/s); load " << 1e3 * session.load_seconds << " ms, transfers waited " << 1e3 * s.transfer_wait_seconds
         << " ms; KV read " << percent(s.share_read()) << ", moved " << percent(s.share_moved());
    for (const auto& [name, tier] : engine.tiers()) {
        line << "; " << name << " " << mebibytes(tier.peak_bytes) << " of " << mebibytes(tier.budget_bytes);
    }
    line << "; sidecars " << mebibytes(engine.peak_sidecar_bytes());
    for (const auto& [direction, totals] : engine.transfers())
        line << "; " << direction << " " << mebibytes(totals.bytes);
    line << "; " << engine.strategy_summary() << "]\n";
    return line.str();
}

nlohmann::ordered_json report(Session& session, const Answer& made) {
    const Statistics& statistics = session.engine->statistics();
    nlohmann::ordered_json report = {{"text", made.text},
                                     {"tokens", made.tokens},
                                     {"prompt_tokens", made.prompt_tokens},
                                     {"generated_tokens", made.tokens.size()},
                                     {"finish_reason", to_string(made.reason)},
                                     {"load_seconds", session.load_seconds},
                                     {"prefill_seconds", statistics.prefill_seconds},
                                     {"decode_seconds", statistics.decode_seconds},
                                     {"prefill_tokens_per_second", statistics.prefill_rate()},
                                     {"decode_tokens_per_second", statistics.decode_rate()}};
    report.update(memory_report(*session.engine));
    return report;
}

int run(RunOptions options) {
    if (options.temperature >= 0) {
        options.model.pipeline.overrides.push_back("sample.temperature=" + shortest(options.temperature));
    }
    if (options.seed >= 0) options.model.pipeline.overrides.push_back("sample.seed=" + std::to_string(options.seed));
    const Prompt prompt = read_prompt(options);
    Session session = open_session(options.model, 1);
    session.engine->recall_meter().set_every(static_cast<uint64_t>(options.recall_every));
    std::optional<Progress> progress;
    session.engine->on_prefill = [&](int64_t done, int64_t total) {
        if (!progress) progress.emplace("prefill", static_cast<uint64_t>(total), "tokens");
        progress->update(static_cast<uint64_t>(done));
    };
    AnswerOptions how;
    how.max_tokens = options.max_tokens;
    how.ignore_end = options.ignore_end;
    how.go_on = [] { return caught_signal() == 0; };
    how.on_text = [&](const std::string& piece) {
        progress.reset();
        if (!options.json) std::cout << piece << std::flush;
        return caught_signal() == 0;
    };
    const Answer made = answer(session, prompt, how);
    progress.reset();
    if (options.json) {
        print_json(report(session, made));
    } else if (!made.text.ends_with('\n')) {
        std::cout << std::endl;
    }
    write_stderr(statistics_line(session, made));
    return caught_signal() == 0 ? 0 : 128 + caught_signal();
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
    auto options = std::make_shared<RunOptions>();
    CLI::App* command = app.add_subcommand("run", "Answer one prompt");
    add_model_options(*command, options->model);
    auto* source = command->add_option_group("prompt");
    source->add_option("--prompt", options->prompt, "the prompt; special tokens in it count as such");
    source->add_option("--prompt-file", options->prompt_file, "file that holds the prompt");
    source->add_option("--prompt-ids-file", options->ids_file,
                       "file that holds the prompt as a JSON array of token ids");
    source->require_option(1);
    command->add_flag("--chat", options->chat, "the prompt is a user's message: put it into the model's chat template");
    command->add_option("-n,--max-tokens", options->max_tokens, "most new tokens")->check(CLI::Range(1, 1 << 30));
    command->add_option("--temperature", options->temperature, "stands for sample.temperature")
        ->check(CLI::Range(0.0, 5.0));
    command
        ->add_option(
            "--recall-every", options->recall_every,
            "compare with dense attention at every Nth decode step (recall, attention mass kept, output error); "
            "0: never")
        ->check(CLI::Range(0, 1 << 24));
    command->add_option("--seed", options->seed, "stands for sample.seed")->check(CLI::NonNegativeNumber);
    command->add_flag("--ignore-end", options->ignore_end, "go on after the model ends its answer");
    command->add_flag("--json", options->json, "one JSON object on standard output");
    command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace kvplane::tool
