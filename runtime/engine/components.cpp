#include "engine/components.h"

#include "base/error.h"
#include "observe/log.h"
#include "plugin/options.h"

namespace kvplane {

namespace {

// Where to put right what names a plugin that cannot be used.
std::string named_by(const Origin& origin) {
    return origin.kind == OriginKind::by_default ? "" : " (named by " + to_string(origin) + ")";
}

std::shared_ptr<Plugin> open_slot(Pipeline& pipeline, const PluginLoader& loader, const std::string& slot,
                                  std::vector<ComponentReport>* reports) {
    const std::vector<PluginReference> wanted = pipeline.plugins(slot);
    for (size_t i = 0; i < wanted.size(); ++i) {
        ComponentReport report{slot, wanted[i].name, "", {}, false};
        const std::string reference = wanted[i].path.empty() ? wanted[i].name : wanted[i].path.string();
        try {
            std::shared_ptr<Plugin> plugin = loader.open(reference, slot, std::filesystem::current_path());
            report.path = plugin->path().string();
            report.steps = plugin->steps();
            report.loaded = true;
            if (reports != nullptr) reports->push_back(report);
            pipeline.declare_plugin(slot, plugin->id(), plugin->options());
            return plugin;
        } catch (const LoadError& error) {
            report.steps = error.steps();
            if (reports != nullptr) reports->push_back(report);
            const std::string reason = error.what() + named_by(wanted[i].origin);
            if (i + 1 == wanted.size()) throw LoadError(reason, error.steps());
            log("plugin").warn(reason, "; trying the fallback ", wanted[i + 1].name);
        }
    }
    throw Error(ErrorKind::config, "no plugin is named for the slot " + slot);
}

void start(Plugin& plugin, const std::string& slot, const Pipeline& pipeline, OptionValues values) {
    for (const OptionSpec& spec : plugin.options()) {
        values[spec.path] = pipeline.value(slot + "." + plugin.id() + "." + spec.path);
    }
    plugin.init(values);
}

}  // namespace

Components open_components(Pipeline& pipeline, std::vector<ComponentReport>* reports) {
    const PluginLoader loader(standard_search_path(pipeline.list("plugins.path")));
    Components made;
    made.device = open_slot(pipeline, loader, "device", reports);
    made.kv = open_slot(pipeline, loader, "kv", reports);
    made.codec = open_slot(pipeline, loader, "codec", reports);
    made.transfer = open_slot(pipeline, loader, "transfer", reports);
    pipeline.check_plugins();
    return made;
}

void start_components(const Components& components, const Pipeline& pipeline) {
    start(*components.device, "device", pipeline, {{granted_threads_key, pipeline.integer("device.threads")}});
    start(*components.kv, "kv", pipeline, {});
    start(*components.codec, "codec", pipeline, {});
    start(*components.transfer, "transfer", pipeline, {});
}

}  // namespace kvplane
