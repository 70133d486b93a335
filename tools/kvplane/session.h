// The options that name a model, and the session that they open: what every command that computes begins with.
#pragma once

#include <nlohmann/json.hpp>

#include "api/session.h"
#include "common.h"

namespace kvplane::tool {

struct ModelOptions {
    PipelineOptions pipeline;
    std::string model;
    int64_t threads = -1;
};

// with_pipeline: -p as well; a command that takes several pipelines declares its own.
void add_model_options(CLI::App& command, ModelOptions& options, bool with_pipeline = true);

// What -m and -t stand for, as KEY=VALUE.
std::vector<std::string> implied_overrides(const ModelOptions& options);

// `max_sequences`: how many will run at once; the pipeline's value is the bound, and memory is planned for this many.
Session open_session(const ModelOptions& options, const EngineLimits& limits);
inline Session open_session(const ModelOptions& options, int64_t max_sequences, int64_t context = 0) {
    return open_session(options, EngineLimits{max_sequences, context});
}

// {"kv": …, "tiers": …, "transfers": …}: what a run did with its memory.
nlohmann::ordered_json memory_report(Engine& engine);

}  // namespace kvplane::tool
