#include "session.h"

#include <chrono>

#include "base/error.h"
#include "observe/log.h"

namespace kvplane::tool {

void add_model_options(CLI::App& command, ModelOptions& options) {
    add_pipeline_options(command, options.pipeline);
    command.add_option("-m,--model", options.model, "model file (GGUF); stands for model.path");
    command.add_option("-t,--threads", options.threads, "threads of the device; stands for device.threads")
        ->check(CLI::Range(0, 4096));
}

Session open_session(const ModelOptions& options, int64_t max_sequences, int64_t context) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::string> overrides;
    if (!options.model.empty()) overrides.push_back("model.path=" + options.model);
    if (options.threads >= 0) overrides.push_back("device.threads=" + std::to_string(options.threads));

    Session session{load_pipeline(options.pipeline, overrides), {}, {}, {}, {}, 0};
    session.plugins = open_components(session.pipeline);
    for (const std::string& warning : session.pipeline.warnings()) log("config").warn(warning);
    const auto path = session.pipeline.path("model.path");
    if (path.empty()) {
        throw Error(ErrorKind::usage, "no model: give --model FILE, or model.path in the pipeline");
    }
    session.model = Model::open(path.string());
    for (const std::string& warning : session.model->warnings()) log("model").warn(warning);
    session.tokenizer = Tokenizer::from_gguf(session.model->file());
    for (const std::string& warning : session.tokenizer->warnings()) log("tokenizer").warn(warning);
    start_components(session.plugins, session.pipeline);
    session.engine =
        std::make_unique<Engine>(session.pipeline, *session.model, session.plugins, EngineLimits{max_sequences, context});
    session.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    log("engine").info("loaded ", path.string(), " in ", session.load_seconds, " s; ",
                       session.engine->strategy_summary());
    return session;
}

nlohmann::ordered_json memory_report(Engine& engine) {
    using json = nlohmann::ordered_json;
    const Statistics& statistics = engine.statistics();
    json report;
    report["strategy"] = engine.strategy_id();
    report["strategy_settings"] = engine.strategy_summary();
    report["kv"] = {{"share_read", statistics.share_read()},
                    {"share_moved", statistics.share_moved()},
                    {"sidecar_peak_bytes", engine.peak_sidecar_bytes()},
                    {"access", engine.in_place() ? "direct" : "copy"}};
    json tiers = json::object();
    for (const auto& [name, tier] : engine.tiers()) {
        tiers[name] = {{"budget_bytes", tier.budget_bytes}, {"peak_bytes", tier.peak_bytes}};
    }
    report["tiers"] = tiers;
    json transfers = json::object();
    for (const auto& [direction, totals] : engine.transfers()) {
        transfers[direction] = {{"bytes", totals.bytes}, {"pieces", totals.pieces}, {"batches", totals.batches}};
    }
    report["transfers"] = transfers;
    report["transfer_wait_seconds"] = statistics.transfer_wait_seconds;
    return report;
}

SamplerOptions sampler_options(const Pipeline& pipeline) {
    SamplerOptions options;
    options.temperature = pipeline.real("sample.temperature");
    options.top_k = pipeline.integer("sample.top_k");
    options.top_p = pipeline.real("sample.top_p");
    options.min_p = pipeline.real("sample.min_p");
    options.repeat_penalty = pipeline.real("sample.repeat_penalty");
    options.presence_penalty = pipeline.real("sample.presence_penalty");
    options.frequency_penalty = pipeline.real("sample.frequency_penalty");
    options.repeat_window = pipeline.integer("sample.repeat_window");
    options.seed = static_cast<uint64_t>(pipeline.integer("sample.seed"));
    return options;
}

}  // namespace kvplane::tool
