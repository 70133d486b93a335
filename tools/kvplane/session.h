// A pipeline, a model and the engine that runs it: what every command that computes opens first.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "common.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace kvplane::tool {

struct ModelOptions {
    PipelineOptions pipeline;
    std::string model;
    int64_t threads = -1;
};

void add_model_options(CLI::App& command, ModelOptions& options);

struct Session {
    Pipeline pipeline;
    Components plugins;
    std::unique_ptr<Model> model;
    std::unique_ptr<Tokenizer> tokenizer;
    std::unique_ptr<Engine> engine;
    double load_seconds = 0;
};

// `max_sequences`: how many will run at once; the pipeline's value is the bound, and memory is planned for this many.
Session open_session(const ModelOptions& options, int64_t max_sequences, int64_t context = 0);

// {"kv": …, "tiers": …, "transfers": …}: what a run did with its memory.
nlohmann::ordered_json memory_report(Engine& engine);

SamplerOptions sampler_options(const Pipeline& pipeline);

}  // namespace kvplane::tool
