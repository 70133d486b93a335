// A pipeline with its plugins, model, tokenizer and engine, open and ready to compute: what the program and libkvplane
// both stand on.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace kvplane {

struct Session {
    Pipeline pipeline;
    Components plugins;
    std::unique_ptr<Model> model;
    std::unique_ptr<Tokenizer> tokenizer;
    std::unique_ptr<Engine> engine;
    double load_seconds = 0;
};

// Throws what its parts throw; Error(usage) when the pipeline names no model.
Session open_session(Pipeline pipeline, const EngineLimits& limits);

}  // namespace kvplane
