// kvplane config check, kvplane config explain: what a pipeline says, and where each value comes from.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "command.h"
#include "common.h"
#include "engine/components.h"
#include "engine/engine.h"
#include "engine/strategy_report.h"
#include "model/nominal_model.h"
#include "tokenizer/tokenizer.h"

namespace kvplane::tool {

namespace {

struct ConfigOptions {
    PipelineOptions pipeline;
    std::string model;
    bool json = false;
};

Pipeline load(const ConfigOptions& options) {
    std::vector<std::string> implied;
    if (!options.model.empty()) implied.push_back("model.path=" + options.model);
    return load_pipeline(options.pipeline, implied);
}

EngineLimits limits_of_a_run() {
    EngineLimits limits;
    limits.max_sequences = 1;
    return limits;
}

// A prompt of one token and one that is decoded: what would be refused in a run is refused here, by the same code.
void let_it_work(Engine& engine) {
    engine.evaluate(std::vector<int32_t>(static_cast<size_t>(std::min<int64_t>(2, engine.context())), 0), 1, 0, {});
}

void check_with_model(const Pipeline& pipeline, const Components& plugins, const std::string& path) {
    const std::unique_ptr<Model> model = Model::open(path);
    Tokenizer::from_gguf(model->file());
    Engine engine(pipeline, *model, plugins, limits_of_a_run());
    let_it_work(engine);
}

void check_without_model(const Pipeline& pipeline, const Components& plugins) {
    constexpr int64_t usual_context = 8192;
    const NominalModel nominal(static_cast<uint32_t>(std::max(usual_context, pipeline.integer("model.context"))));
    EngineLimits limits = limits_of_a_run();
    limits.nominal = true;
    try {
        Engine engine(pipeline, nominal.model(), plugins, limits);
        // A calibration means nothing for another model than its own.
        if (pipeline.path("kv.aux").empty()) let_it_work(engine);
    } catch (const Error& error) {
        throw Error(error.kind(), std::string(error.what()) + " (found with " + std::string(NominalModel::description) +
                                      "; --model FILE checks with yours)");
    }
}

int check(const ConfigOptions& options) {
    Pipeline pipeline = load(options);
    const Components plugins = open_components(pipeline);
    start_components(plugins, pipeline);
    if (const auto path = pipeline.path("model.path"); path.empty()) {
        check_without_model(pipeline, plugins);
    } else {
        check_with_model(pipeline, plugins, path.string());
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
    Pipeline pipeline = load(options);
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
        const Components plugins = open_components(pipeline, &reports);
        if (const auto path = pipeline.path("model.path"); !path.empty()) {
            const std::unique_ptr<Model> model = Model::open(path.string());
            start_components(plugins, pipeline);
            const Engine engine(pipeline, *model, plugins, limits_of_a_run());
            strategy = report_strategy(engine);
            n_layers = engine.shape().layers;
        }
    } catch (const Error&) {
        print();  // what was found out so far says why
        throw;
    }
    print();
    return 0;
}

}  // namespace

void add_config(CLI::App& app, Action& action) {
    CLI::App* config = app.add_subcommand("config", "Look at a pipeline without running it");
    config->require_subcommand(1);
    const auto add = [&](const char* name, const char* help, const char* model_help,
                         int (*body)(const ConfigOptions&)) {
        auto options = std::make_shared<ConfigOptions>();
        CLI::App* command = config->add_subcommand(name, help);
        add_pipeline_options(*command, options->pipeline);
        command->add_option("-m,--model", options->model, model_help);
        command->add_flag("--json", options->json, "one JSON object on standard output");
        command->callback([options, body, &action] { action = [options, body] { return body(*options); }; });
    };
    add("check", "Say whether it can work", "model file (GGUF); stands for model.path", check);
    add("explain", "Every value and its origin, every plugin and why it was taken or not",
        "model file (GGUF); stands for model.path: what evidence the strategy takes in its layers, and bytes a token",
        explain);
}

}  // namespace kvplane::tool
