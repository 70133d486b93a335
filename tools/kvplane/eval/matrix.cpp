#include "eval/matrix.h"

#include "base/error.h"
#include "eval/fingerprint.h"
#include "observe/log.h"

namespace kvplane::tool {

void add_matrix_options(CLI::App& command, MatrixOptions& options) {
    command
        .add_option(
            "-p,--pipeline", options.pipelines,
            "FILE or FILE,KEY=VALUE,…,label=NAME: pipeline (TOML) with overrides; may be repeated. The first is "
            "what the others are compared with")
        ->expected(1)
        ->take_all();
    command.add_option("--matrix", options.matrix, "file that lists pipelines (TOML), after those of -p");
    add_model_options(command, options.model, false);
}

Matrix::Matrix(const MatrixOptions& options) {
    for (const std::string& text : options.pipelines) contenders_.push_back(parse_contender(text));
    if (!options.matrix.empty()) {
        for (Contender& contender : read_matrix(options.matrix)) contenders_.push_back(std::move(contender));
    }
    if (contenders_.empty()) contenders_.push_back(parse_contender(""));
    check_labels(contenders_);
    for (const Contender& contender : contenders_) {
        ModelOptions model = options.model;
        model.pipeline.file = contender.file;
        auto& overrides = model.pipeline.overrides;
        overrides.insert(overrides.end(), contender.overrides.begin(), contender.overrides.end());
        try {
            pipelines_.push_back(load_pipeline(model.pipeline, implied_overrides(model)));
            plugins_.push_back(open_components(pipelines_.back()));
        } catch (const Error& error) {
            throw Error(error.kind(), "pipeline \"" + contender.label + "\": " + error.what());
        }
        const std::string path = pipelines_.back().path("model.path").string();
        if (path.empty()) throw Error(ErrorKind::usage, "no model: give --model FILE, or model.path in the pipeline");
        if (!model_path_.empty() && path != model_path_) {
            throw Error(ErrorKind::usage, "one run compares pipelines on one model, and these name two: " +
                                              model_path_ + " and " + path + "; give --model FILE");
        }
        model_path_ = path;
        for (const std::string& warning : pipelines_.back().warnings()) log("config").warn(warning);
    }
    model_ = Model::open(model_path_);
    for (const std::string& warning : model_->warnings()) log("model").warn(warning);
    tokenizer_ = Tokenizer::from_gguf(model_->file());
}

std::string Matrix::identity(size_t i) const {
    std::string text = std::to_string(model_->fingerprint()) + "\n" + plugins_[i].device->id() + " " +
                       plugins_[i].kv->id() + " " + plugins_[i].transfer->id() + "\n";
    for (const ExplainRow& row : pipelines_[i].explain()) {
        const auto is = [&](const char* prefix) { return row.key.starts_with(prefix); };
        if (is("log.") || is("model.path") || is("plugins.") || is("device.threads") || is("sample.")) continue;
        text += row.key + "=" + row.value + "\n";
    }
    if (const auto aux = pipelines_[i].path("kv.aux"); !aux.empty()) {
        text += "aux " + fingerprint(read_text_file(aux.string())) + "\n";
    }
    return text;
}

Matrix::Opened Matrix::open(size_t i, const EngineLimits& limits) {
    Opened opened;
    opened.plugins_ = std::exchange(plugins_[i], {});
    start_components(opened.plugins_, pipelines_[i]);
    opened.engine_ = std::make_unique<Engine>(pipelines_[i], *model_, opened.plugins_, limits);
    return opened;
}

}  // namespace kvplane::tool
