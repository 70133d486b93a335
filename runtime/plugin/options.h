// The options that a plugin declares (kvp_option), as the pipeline's schema knows them.
#pragma once

#include <kvplane/plugin.h>

#include <string>
#include <vector>

#include "config/pipeline.h"
#include "config/schema.h"
#include "plugin/host.h"

namespace kvplane {

// The key under which the core grants a device its threads; any plugin may be given it without declaring it.
inline constexpr const char* granted_threads_key = "threads";

// Throws Error(plugin), whose text is the reason alone, when the table is not sane: a key twice, an unknown type, a
// default that is none or breaks its own range.
std::vector<OptionSpec> read_options(const kvp_plugin_descriptor& descriptor);

// The defaults, replaced by `values` where there are any. Throws Error(plugin) on a key that is not declared, a value
// of another type and one that its spec rejects.
OptionValues merge_options(const std::vector<OptionSpec>& specs, const OptionValues& values);

// What the pipeline says in the plugin's own table, as "kv.window" (declared there by declare_plugin), for
// Plugin::init.
OptionValues table_values(const Pipeline& pipeline, const std::string& table, const std::vector<OptionSpec>& specs);

}  // namespace kvplane
