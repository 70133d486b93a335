// Who a plugin is and what it needs: the JSON of its ELF note (kvplane/manifest.h), read without running the plugin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/file.h"

namespace kvplane {

struct Manifest {
    std::vector<std::string> kinds;
    std::string id;
    std::string version;
    uint32_t abi_major = 0;
    uint32_t abi_minor = 0;
    std::vector<std::string> cpu;
    std::vector<std::string> drivers;
    std::vector<std::string> gpu;
    std::string sanitizer = "none";

    bool serves(std::string_view kind) const;  // empty: whatever kind
};

// Throws Error(plugin), whose text is the reason alone.
Manifest read_manifest(const PluginFile& file);

// Keys that it does not know are left aside: a later minor may add some.
Manifest parse_manifest(std::string_view json);

}  // namespace kvplane
