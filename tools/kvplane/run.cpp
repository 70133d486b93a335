// kvplane run: answers one prompt.
#include <iomanip>
#include <iostream>
#include <sstream>

#include "base/error.h"
#include "command.h"
#include "observe/progress.h"
#include "observe/terminal.h"
#include "session.h"
#include "signals.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/utf8_stream.h"

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
};

std::vector<int32_t> read_ids(const std::string& path) {
    try {
        return nlohmann::json::parse(read_text_file(path)).get<std::vector<int32_t>>();
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorKind::usage, path + ": is no JSON array of token ids: " + error.what());
    }
}

std::vector<int32_t> prompt_ids(const RunOptions& options, const Session& session) {
    if (!options.ids_file.empty()) return read_ids(options.ids_file);
    const std::string text = options.prompt_file.empty() ? options.prompt : read_text_file(options.prompt_file);
    const Tokenizer& tokenizer = *session.tokenizer;
    std::vector<int32_t> ids;
    if (options.chat) {
        const ChatMessage message{"user", text};
        ids = tokenizer.encode(ChatTemplate::from_gguf(session.model->file()).render({&message, 1}));
    } else {
        ids = tokenizer.encode(text, true);
    }
    tokenizer.begin_prompt(ids);
    return ids;
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
std::string statistics_line(Session& session, size_t n_prompt, size_t n_new) {
    Engine& engine = *session.engine;
    const Statistics& s = engine.statistics();
    std::ostringstream line;
    line << std::fixed << std::setprecision(1);
    line << "[" << n_prompt << " prompt tokens in " << 1e3 * s.prefill_seconds << " ms (" << s.prefill_rate()
         << " tok/s), " << n_new << " new in " << 1e3 * s.decode_seconds << " ms (" << s.decode_rate()
         << " tok/s); load " << 1e3 * session.load_seconds << " ms, transfers waited " << 1e3 * s.transfer_wait_seconds
         << " ms; KV read " << percent(s.share_read()) << ", moved " << percent(s.share_moved());
    for (const auto& [name, tier] : engine.tiers()) {
        line << "; " << name << " " << mebibytes(tier.peak_bytes) << " of " << mebibytes(tier.budget_bytes);
    }
    line << "; sidecars " << mebibytes(engine.peak_sidecar_bytes());
    for (const auto& [direction, totals] : engine.transfers()) line << "; " << direction << " " << mebibytes(totals.bytes);
    line << "; " << engine.strategy_summary() << "]\n";
    return line.str();
}

int run(RunOptions options) {
    if (options.temperature >= 0) {
        options.model.pipeline.overrides.push_back("sample.temperature=" + std::to_string(options.temperature));
    }
    if (options.seed >= 0) options.model.pipeline.overrides.push_back("sample.seed=" + std::to_string(options.seed));
    Session session = open_session(options.model, 1);
    Engine& engine = *session.engine;
    const Tokenizer& tokenizer = *session.tokenizer;

    GenerationRequest request;
    request.prompt = prompt_ids(options, session);
    request.max_tokens = options.max_tokens;
    request.sampler = sampler_options(session.pipeline);
    for (int32_t id = 0; !options.ignore_end && id < tokenizer.vocabulary_size(); ++id) {
        if (tokenizer.is_end_of_generation(id)) request.stop_tokens.push_back(id);
    }
    Utf8Stream stream;
    std::string text;
    const auto emit = [&](const std::string& piece) {
        text += piece;
        if (!options.json) std::cout << piece << std::flush;
    };
    request.on_token = [&](int32_t token) {
        if (!tokenizer.is_control(token)) emit(stream.push(tokenizer.piece(token)));
        return caught_signal() == 0;
    };
    const size_t n_prompt = request.prompt.size();
    {
        Progress progress("prefill", n_prompt, "tokens");
        engine.on_prefill = [&](int64_t done, int64_t) { progress.update(static_cast<uint64_t>(done)); };
        const uint64_t id = engine.submit(std::move(request));
        bool prefilled = false;
        while (caught_signal() == 0 && engine.step()) {
            if (!prefilled && engine.statistics().prefill_tokens >= n_prompt) {
                progress.finish();
                prefilled = true;
            }
        }
        if (caught_signal() != 0) engine.cancel(id);
        emit(stream.finish());
        if (!options.json && !text.ends_with('\n')) std::cout << std::endl;
        const auto& tokens = engine.tokens(id);
        std::vector<int32_t> made(tokens.begin() + static_cast<std::ptrdiff_t>(n_prompt), tokens.end());
        const FinishReason reason = engine.finish_reason(id);
        if (reason == FinishReason::stop) made.pop_back();
        write_stderr(statistics_line(session, n_prompt, made.size()));
        if (options.json) {
            const Statistics& statistics = engine.statistics();
            nlohmann::ordered_json report = {{"text", text},
                                             {"tokens", made},
                                             {"prompt_tokens", n_prompt},
                                             {"generated_tokens", made.size()},
                                             {"finish_reason", to_string(reason)},
                                             {"load_seconds", session.load_seconds},
                                             {"prefill_seconds", statistics.prefill_seconds},
                                             {"decode_seconds", statistics.decode_seconds},
                                             {"prefill_tokens_per_second", statistics.prefill_rate()},
                                             {"decode_tokens_per_second", statistics.decode_rate()}};
            report.update(memory_report(engine));
            print_json(std::move(report));
        }
    }
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
    source->add_option("--prompt-ids-file", options->ids_file, "file that holds the prompt as a JSON array of token ids");
    source->require_option(1);
    command->add_flag("--chat", options->chat, "the prompt is a user's message: put it into the model's chat template");
    command->add_option("-n,--max-tokens", options->max_tokens, "most new tokens")->check(CLI::Range(1, 1 << 30));
    command->add_option("--temperature", options->temperature, "stands for sample.temperature")->check(CLI::Range(0.0, 5.0));
    command->add_option("--seed", options->seed, "stands for sample.seed")->check(CLI::NonNegativeNumber);
    command->add_flag("--ignore-end", options->ignore_end, "go on after the model ends its answer");
    command->add_flag("--json", options->json, "one JSON object on standard output");
    command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace kvplane::tool
