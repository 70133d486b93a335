// A sub-command declares its options and says what runs when it was chosen; main.cpp lists them all.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kvplane::tool {

// What main() runs after parsing; the result is the exit code.
using Action = std::function<int()>;

void add_run(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_trace(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_plugin(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);
void add_model(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_exit_codes(CLI::App& app, Action& action);

}  // namespace kvplane::tool
