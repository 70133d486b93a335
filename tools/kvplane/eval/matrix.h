// The contenders of a comparison on one model, opened one after the other: a process runs a plugin with one set of options
// at a time, and memory holds one engine. All are checked before the first computes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/session.h"
#include "eval/contender.h"
#include "session.h"

namespace kvplane::tool {

// -p, --matrix and what every command that computes takes.
struct MatrixOptions {
    ModelOptions model;
    std::vector<std::string> pipelines;
    std::string matrix;
};

void add_matrix_options(CLI::App& command, MatrixOptions& options);

// How long figures are kept, and how they are shown.
struct ReportOptions {
    std::string resume, chart;
    int64_t recall_every = 64;
    bool json = false;
};

void add_report_options(CLI::App& command, ReportOptions& options);

class Matrix {
public:
    explicit Matrix(const MatrixOptions& options);

    size_t size() const { return contenders_.size(); }
    const Contender& contender(size_t i) const { return contenders_[i]; }
    const Model& model() const { return *model_; }
    const Tokenizer& tokenizer() const { return *tokenizer_; }
    // What figures of a contender depend on: model, plugins and every key that is not about logs, paths or threads.
    const std::string& identity(size_t i) const { return identities_[i]; }

    // A contender's engine, while it lives; one at a time.
    class Opened {
    public:
        Engine& engine() { return *engine_; }

    private:
        friend class Matrix;
        Components plugins_;
        std::unique_ptr<Engine> engine_;
    };
    Opened open(size_t i, const EngineLimits& limits) const;

private:
    struct Loaded {
        Pipeline pipeline;
        Components plugins;
    };
    Loaded load(size_t i) const;

    std::vector<Contender> contenders_;
    ModelOptions options_;
    std::vector<std::string> identities_;
    std::string model_path_;
    std::unique_ptr<Model> model_;
    std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace kvplane::tool
