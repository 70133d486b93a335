// The libraries of this process. Inside of runtime/plugin only.
#pragma once

#include <kvplane/plugin.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "plugin/file.h"
#include "plugin/host.h"
#include "plugin/plugin.h"

namespace kvplane {

// A mapped library is never unmapped: threads, thread-local destructors and atexit handlers of it may outlive its use.
struct LoadedLibrary {
    explicit LoadedLibrary(const std::string& id) : host(id) {}

    PluginHost host;
    const kvp_plugin_descriptor* descriptor = nullptr;  // NULL until validated
    std::vector<OptionSpec> options;
    std::weak_ptr<Plugin> plugin;
    const Plugin* running = nullptr;  // whose init was the last without a fini
};

struct LoadedLibraries {
    std::mutex mutex;  // one load, init or fini at a time (thread class init)
    std::map<PluginFile::Identity, std::unique_ptr<LoadedLibrary>> by_identity;
};

// Never destroyed.
LoadedLibraries& loaded_libraries();

}  // namespace kvplane
