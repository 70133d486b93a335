// kvplane config check, kvplane config explain: what a pipeline says, and where each value comes from.
#include <iomanip>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "command.h"
#include "common.h"
#include "engine/components.h"
#include "engine/engine.h"
#include "engine/strategy_report.h"
#include "session.h"

namespace kvplane::tool {

namespace {

struct ConfigOptions {
    PipelineOptions pipeline;
    std::string model;  // explain: the strategy is asked about it
    bool json = false;
};

int check(const ConfigOptions& options) {
    Pipeline pipeline = load_pipeline(options.pipeline);
    const Components plugins = open_components(pipeline);
    start_components(plugins, pipeline);
    check_together(plugins, pipeline);
    if (const auto path = pipeline.path("model.path"); !path.empty()) {
        // With a model everything can be told: head sizes, pools, budgets.
        const std::unique_ptr<Model> model = Model::open(path.string());
        const Engine engine(pipeline, *model, plugins);
    }
    if (options.json) {
        print_json({{"ok", true}, {"warnings", pipeline.warnings()}});
        return 0;
    }
    for (const std::string& warning : pipeline.warnings()) std::cerr << "warning: " << warning << "\n";
    std::cout << "ok: device " << plugins.device->id() << ", kv " << plugins.kv->id() << ", codec "
              << plugins.codec->id() << ", transfer " << plugins.transfer->id() << "\n";
    return 0;
}

void print_rows(const Pipeline& pipeline) {
    const std::vector<ExplainRow> rows = pipeline.explain();
    size_t key_width = 0, value_width = 0, origin_width = 0;
    for (const ExplainRow& row : rows) {
        key_width = std::max(key_width, row.key.size());
        value_width = std::max(value_width, std::min<size_t>(row.value.size(), 24));
        origin_width = std::max(origin_width, row.origin.size());
    }
    for (const ExplainRow& row : rows) {
        std::cout << std::left << std::setw(static_cast<int>(key_width)) << row.key << "  "
                  << std::setw(static_cast<int>(value_width)) << row.value << "  "
                  << std::setw(static_cast<int>(origin_width)) << row.origin << "  " << row.doc
                  << (row.unit.empty() ? "" : " (" + row.unit + ")") << "\n";
    }
}

void print_reports(const std::vector<ComponentReport>& reports) {
    for (const ComponentReport& report : reports) {
        std::cout << "\n"
                  << report.slot << " \"" << report.wanted
                  << "\": " << (report.loaded ? "taken, " + report.path : "not taken") << "\n";
        for (const LoadStep& step : report.steps) {
            std::cout << "  " << std::left << std::setw(12) << step.name << (step.ok ? "ok  " : "NO  ")
                      << static_cast<double>(step.ns) / 1e6 << " ms" << (step.reason.empty() ? "" : "  " + step.reason)
                      << "\n";
        }
    }
}

nlohmann::ordered_json report_json(const Pipeline& pipeline, const std::vector<ComponentReport>& reports) {
    using json = nlohmann::ordered_json;
    json values = json::array();
    for (const ExplainRow& row : pipeline.explain()) {
        values.push_back(
            {{"key", row.key}, {"value", row.value}, {"origin", row.origin}, {"unit", row.unit}, {"doc", row.doc}});
    }
    json plugins = json::array();
    for (const ComponentReport& report : reports) {
        json steps = json::array();
        for (const LoadStep& step : report.steps) {
            steps.push_back({{"step", step.name}, {"ok", step.ok}, {"ns", step.ns}, {"reason", step.reason}});
        }
        plugins.push_back({{"slot", report.slot},
                           {"wanted", report.wanted},
                           {"taken", report.loaded},
                           {"path", report.path},
                           {"steps", steps}});
    }
    return {{"values", values}, {"plugins", plugins}, {"warnings", pipeline.warnings()}};
}

std::string layers_text(uint32_t first, uint32_t end) {
    if (end - first == 1) return "layer " + std::to_string(first);
    return "layers " + std::to_string(first) + " to " + std::to_string(end - 1);
}

void print_strategy(const StrategyReport& report, uint32_t n_layers) {
    std::cout << "\n" << report.summary << "\n";
    const uint32_t selecting = report.dense_layers == n_layers ? n_layers : n_layers - report.dense_layers;
    if (selecting < n_layers) std::cout << "  " << layers_text(0, report.dense_layers) << ": every row is read\n";
    if (report.evidence.empty()) std::cout << "  " << layers_text(0, n_layers) << ": needs no evidence\n";
    for (const auto& evidence : report.evidence) {
        std::cout << "  " << layers_text(evidence.first_layer, evidence.end_layer) << ": " << evidence.what << " by "
                  << evidence.op << "; cost: " << evidence.cost << "\n";
    }
    for (const auto& bytes : report.bytes) {
        std::cout << "  " << bytes.what << ": " << std::defaultfloat << bytes.per_token
                  << " bytes a token in all layers (" << bytes.tier << ")\n";
    }
}

nlohmann::ordered_json strategy_json(const StrategyReport& report) {
    using json = nlohmann::ordered_json;
    json evidence = json::array(), bytes = json::array();
    for (const auto& one : report.evidence) {
        evidence.push_back({{"first_layer", one.first_layer},
                            {"end_layer", one.end_layer},
                            {"what", one.what},
                            {"op", one.op},
                            {"cost", one.cost}});
    }
    for (const auto& one : report.bytes) {
        bytes.push_back({{"what", one.what}, {"tier", one.tier}, {"bytes_per_token", one.per_token}});
    }
    return {{"summary", report.summary},
            {"dense_layers", report.dense_layers},
            {"evidence", evidence},
            {"bytes_per_token", bytes}};
}

int explain(const ConfigOptions& options) {
    Pipeline pipeline = load_pipeline(options.pipeline);
    std::vector<ComponentReport> reports;
    std::optional<StrategyReport> strategy;
    uint32_t n_layers = 0;
    const auto print = [&] {
        if (options.json) {
            nlohmann::ordered_json report = report_json(pipeline, reports);
            if (strategy) report["strategy"] = strategy_json(*strategy);
            print_json(std::move(report));
        } else {
            print_rows(pipeline);
            print_reports(reports);
            if (strategy) print_strategy(*strategy, n_layers);
        }
    };
    try {
        open_components(pipeline, &reports);
    } catch (const Error&) {
        print();  // what was found out so far says why
        throw;
    }
    if (!options.model.empty()) {
        const Session session = open_session({options.pipeline, options.model, -1}, 1);
        strategy = report_strategy(*session.engine);
        n_layers = session.engine->shape().layers;
    }
    print();
    return 0;
}

}  // namespace

void add_config(CLI::App& app, Action& action) {
    CLI::App* config = app.add_subcommand("config", "Look at a pipeline without running it");
    config->require_subcommand(1);
    const auto add = [&](const char* name, const char* help, int (*body)(const ConfigOptions&)) {
        auto options = std::make_shared<ConfigOptions>();
        CLI::App* command = config->add_subcommand(name, help);
        add_pipeline_options(*command, options->pipeline);
        if (body == explain) {
            command->add_option("-m,--model", options->model,
                                "model file (GGUF): what evidence the strategy takes in its layers, and bytes a token");
        }
        command->add_flag("--json", options->json, "one JSON object on standard output");
        command->callback([options, body, &action] { action = [options, body] { return body(*options); }; });
    };
    add("check", "Say whether it is right", check);
    add("explain", "Every value and its origin, every plugin and why it was taken or not", explain);
}

}  // namespace kvplane::tool
