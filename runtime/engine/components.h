// The plugins that a pipeline names, found, checked, told their options and started.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/pipeline.h"
#include "plugin/loader.h"
#include "plugin/plugin.h"

namespace kvplane {

struct Components {
    std::shared_ptr<Plugin> device;
    std::shared_ptr<Plugin> kv;
    std::shared_ptr<Plugin> codec;
    std::shared_ptr<Plugin> transfer;
};

// How the plugin of a slot was found, for `config explain`.
struct ComponentReport {
    std::string slot;
    std::string wanted;
    std::string path;
    std::vector<LoadStep> steps;
    bool loaded = false;
};

// Opens the plugins of a pipeline and checks its plugin tables against their options; starts none. A slot's fallbacks
// are tried in order, each failure logged as a warning. Throws Error(plugin) or Error(config).
Components open_components(Pipeline& pipeline, std::vector<ComponentReport>* reports = nullptr);

// Gives each its options and starts it. `threads` go to the device.
void start_components(const Components& components, const Pipeline& pipeline);

}  // namespace kvplane
