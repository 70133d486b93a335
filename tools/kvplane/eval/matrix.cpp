#include "eval/matrix.h"

#include "base/error.h"
#include "eval/fingerprint.h"
#include "observe/log.h"

namespace kvplane::tool {

namespace {

std::string identity_of(const Pipeline& pipeline, const Components& plugins) {
    std::string text =
        plugins.device->id() + " " + plugins.kv->id() + " " + plugins.codec->id() + " " + plugins.transfer->id() + "\n";
    for (const ExplainRow& row : pipeline.explain()) {
        const auto is = [&](const char* prefix) { return row.key.starts_with(prefix); };
        if (is("log.") || is("model.path") || is("plugins.") || is("device.threads") || is("sample.")) continue;
        text += row.key + "=" + row.value + "\n";
    }
    if (const auto aux = pipeline.path("kv.aux"); !aux.empty()) {
        text += "aux " + fingerprint(read_text_file(aux.string())) + "\n";
    }
    return text;
}

}  // namespace

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

void add_report_options(CLI::App& command, ReportOptions& options) {
    command
        .add_option("--recall-every", options.recall_every,
                    "compare with dense attention at every Nth decode step (recall, attention mass kept); 0: never")
        ->check(CLI::Range(0, 1 << 24));
    command.add_option("--resume", options.resume,
                       "file that keeps results as they come (JSON Lines); what it holds is not computed again");
    command.add_option("--chart", options.chart, "picture to write, .svg or .html");
    command.add_flag("--json", options.json, "one JSON object on standard output");
}

Matrix::Matrix(const MatrixOptions& options) : options_(options.model) {
    for (const std::string& text : options.pipelines) contenders_.push_back(parse_contender(text));
    if (!options.matrix.empty()) {
        for (Contender& contender : read_matrix(options.matrix)) contenders_.push_back(std::move(contender));
    }
    if (contenders_.empty()) contenders_.push_back(parse_contender(""));
    check_labels(contenders_);
    // A plugin that somebody holds keeps its options, so nothing of this is held until the contender's turn comes.
    for (size_t i = 0; i < contenders_.size(); ++i) {
        const Loaded loaded = load(i);
        const std::string path = loaded.pipeline.path("model.path").string();
        if (path.empty()) throw Error(ErrorKind::usage, "no model: give --model FILE, or model.path in the pipeline");
        if (!model_path_.empty() && path != model_path_) {
            throw Error(ErrorKind::usage, "one run compares pipelines on one model, and these name two: " +
                                              model_path_ + " and " + path + "; give --model FILE");
        }
        model_path_ = path;
        for (const std::string& warning : loaded.pipeline.warnings()) log("config").warn(warning);
        identities_.push_back(identity_of(loaded.pipeline, loaded.plugins));
    }
    model_ = Model::open(model_path_);
    for (const std::string& warning : model_->warnings()) log("model").warn(warning);
    tokenizer_ = Tokenizer::from_gguf(model_->file());
    for (std::string& identity : identities_) identity += "model " + std::to_string(model_->fingerprint()) + "\n";
}

Matrix::Loaded Matrix::load(size_t i) const {
    const Contender& contender = contenders_[i];
    ModelOptions model = options_;
    model.pipeline.file = contender.file;
    auto& overrides = model.pipeline.overrides;
    overrides.insert(overrides.end(), contender.overrides.begin(), contender.overrides.end());
    try {
        Loaded loaded{load_pipeline(model.pipeline, implied_overrides(model)), {}};
        loaded.plugins = open_components(loaded.pipeline);
        return loaded;
    } catch (const Error& error) {
        throw Error(error.kind(), "pipeline \"" + contender.label + "\": " + error.what());
    }
}

Matrix::Opened Matrix::open(size_t i, const EngineLimits& limits) const {
    Loaded loaded = load(i);
    Opened opened;
    opened.plugins_ = std::move(loaded.plugins);
    start_components(opened.plugins_, loaded.pipeline);
    opened.engine_ = std::make_unique<Engine>(loaded.pipeline, *model_, opened.plugins_, limits);
    return opened;
}

}  // namespace kvplane::tool
