// kvplane plugin list, kvplane plugin info.
#include <filesystem>
#include <iomanip>
#include <iostream>

#include "command.h"
#include "common.h"
#include "plugin/catalog.h"
#include "plugin/loader.h"

namespace kvplane::tool {

namespace {

struct PluginOptions {
    PipelineOptions pipeline;
    std::string reference;
    std::string kind;
    bool json = false;
};

nlohmann::ordered_json manifest_json(const Manifest& manifest) {
    return {{"id", manifest.id},
            {"kinds", manifest.kinds},
            {"version", manifest.version},
            {"abi", std::to_string(manifest.abi_major) + "." + std::to_string(manifest.abi_minor)},
            {"cpu", manifest.cpu},
            {"drivers", manifest.drivers},
            {"gpu", manifest.gpu},
            {"sanitizer", manifest.sanitizer}};
}

int list(const PluginOptions& options) {
    const Pipeline pipeline = load_pipeline(options.pipeline);
    const std::vector<CatalogEntry> entries = list_plugins(standard_search_path(pipeline.list("plugins.path")));
    if (options.json) {
        nlohmann::ordered_json plugins = nlohmann::ordered_json::array();
        for (const CatalogEntry& entry : entries) {
            nlohmann::ordered_json one =
                entry.manifest ? manifest_json(*entry.manifest) : nlohmann::ordered_json::object();
            one["path"] = entry.path.string();
            one["problem"] = entry.problem;
            plugins.push_back(std::move(one));
        }
        print_json({{"plugins", plugins}});
        return 0;
    }
    for (const CatalogEntry& entry : entries) {
        std::string kinds;
        for (const std::string& kind : entry.manifest ? entry.manifest->kinds : std::vector<std::string>{}) {
            kinds += (kinds.empty() ? "" : ",") + kind;
        }
        std::cout << std::left << std::setw(10) << kinds << std::setw(14) << (entry.manifest ? entry.manifest->id : "?")
                  << std::setw(9) << (entry.manifest ? entry.manifest->version : "") << entry.path.string()
                  << (entry.problem.empty() ? "" : "  (refused: " + entry.problem + ")") << "\n";
    }
    return 0;
}

std::string range_text(const OptionSpec& spec) {
    return allowed_text(spec) + ", default " + to_string(spec.default_value);
}

int info(const PluginOptions& options) {
    const Pipeline pipeline = load_pipeline(options.pipeline);
    const PluginLoader loader(standard_search_path(pipeline.list("plugins.path")));
    const auto plugin = loader.open(options.reference, options.kind, std::filesystem::current_path());
    if (options.json) {
        nlohmann::ordered_json report = manifest_json(plugin->manifest());
        report["path"] = plugin->path().string();
        nlohmann::ordered_json keys = nlohmann::ordered_json::array();
        for (const OptionSpec& spec : plugin->options()) {
            keys.push_back({{"key", spec.path}, {"allowed", range_text(spec)}, {"doc", spec.doc}});
        }
        report["options"] = keys;
        nlohmann::ordered_json steps = nlohmann::ordered_json::array();
        for (const LoadStep& step : plugin->steps())
            steps.push_back({{"step", step.name}, {"ok", step.ok}, {"ns", step.ns}});
        report["steps"] = steps;
        print_json(std::move(report));
        return 0;
    }
    std::cout << manifest_json(plugin->manifest()).dump(2) << "\n" << plugin->path().string() << "\n\noptions:\n";
    for (const OptionSpec& spec : plugin->options()) {
        std::cout << "  " << std::left << std::setw(20) << spec.path << spec.doc << " (" << range_text(spec) << ")\n";
    }
    return 0;
}

}  // namespace

void add_plugin(CLI::App& app, Action& action) {
    CLI::App* plugin = app.add_subcommand("plugin", "Look at plugins");
    plugin->require_subcommand(1);
    auto options = std::make_shared<PluginOptions>();
    CLI::App* list_command = plugin->add_subcommand("list", "The plugins of the search folders, without running them");
    CLI::App* info_command = plugin->add_subcommand("info", "One plugin: its note, its options, how it loads");
    info_command->add_option("plugin", options->reference, "id or path")->required();
    info_command->add_option("--kind", options->kind, "device, kv, codec or transfer: which of the plugins of this id");
    for (CLI::App* command : {list_command, info_command}) {
        add_pipeline_options(*command, options->pipeline);
        command->add_flag("--json", options->json, "one JSON object on standard output");
    }
    list_command->callback([options, &action] { action = [options] { return list(*options); }; });
    info_command->callback([options, &action] { action = [options] { return info(*options); }; });
}

}  // namespace kvplane::tool
