// kvplane calibrate kv: lets the strategy learn from a text and keeps the result (kv.aux).
#include <iostream>

#include "base/error.h"
#include "command.h"
#include "engine/aux_file.h"
#include "session.h"
#include "signals.h"

namespace kvplane::tool {

namespace {

struct CalibrateOptions {
    ModelOptions model;
    std::string text;
    std::string output;
    int64_t tokens = 2048;
};

int calibrate(const CalibrateOptions& options) {
    Session session = open_session(options.model, 1, options.tokens);
    std::vector<int32_t> ids = session.tokenizer->encode(read_text_file(options.text), false);
    if (ids.empty()) throw Error(ErrorKind::usage, options.text + ": is empty; give a text of some thousand tokens");
    if (static_cast<int64_t>(ids.size()) > options.tokens) ids.resize(static_cast<size_t>(options.tokens));
    session.engine->should_stop = [] { return caught_signal() != 0; };
    const std::vector<std::byte> data = session.engine->calibrate(ids);
    if (caught_signal() != 0) return 128 + caught_signal();
    write_aux_file(options.output, session.engine->strategy_id(), session.model->fingerprint(), data);
    std::cout << options.output << ": " << data.size() << " bytes from " << ids.size() << " tokens, for "
              << session.engine->strategy_id() << "; use it with kv.aux\n";
    return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
    CLI::App* calibrate_command = app.add_subcommand("calibrate", "Prepare files that a pipeline may use");
    calibrate_command->require_subcommand(1);
    auto options = std::make_shared<CalibrateOptions>();
    CLI::App* command = calibrate_command->add_subcommand("kv", "What the KV strategy learns from a sample text");
    add_model_options(*command, options->model);
    command->add_option("--text", options->text, "sample text")->required();
    command->add_option("-o,--output", options->output, "file to write")->required();
    command->add_option("--tokens", options->tokens, "most tokens of the text")->check(CLI::Range(1, 1 << 20));
    command->callback([options, &action] { action = [options] { return calibrate(*options); }; });
}

}  // namespace kvplane::tool
