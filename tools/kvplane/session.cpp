#include "session.h"

namespace kvplane::tool {

void add_model_options(CLI::App& command, ModelOptions& options, bool with_pipeline) {
    if (with_pipeline) add_pipeline_file(command, options.pipeline);
    add_override_options(command, options.pipeline);
    command.add_option("-m,--model", options.model, "model file (GGUF); stands for model.path");
    command.add_option("-t,--threads", options.threads, "threads of the device; stands for device.threads")
        ->check(CLI::Range(0, 1024));
}

std::vector<std::string> implied_overrides(const ModelOptions& options) {
    std::vector<std::string> overrides;
    if (!options.model.empty()) overrides.push_back("model.path=" + options.model);
    if (options.threads >= 0) overrides.push_back("device.threads=" + std::to_string(options.threads));
    return overrides;
}

Session open_session(const ModelOptions& options, const EngineLimits& limits) {
    return kvplane::open_session(load_pipeline(options.pipeline, implied_overrides(options)), limits);
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
    const RecallMeter& meter = engine.recall_meter();
    if (const RecallSums& sums = meter.sums(); sums.samples > 0) {
        report["kv"]["recall"] = sums.recall / sums.samples;
        report["kv"]["kept_attention_mass"] = sums.mass / sums.samples;
        report["kv"]["output_error"] = sums.error / sums.samples;
        report["kv"]["recall_samples"] = sums.samples;
    }
    if (meter.guard_checks() > 0) {
        report["kv"]["guard_checks"] = meter.guard_checks();
        report["kv"]["guard_turned_dense"] = meter.guard_turned_dense();
    }
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

}  // namespace kvplane::tool
