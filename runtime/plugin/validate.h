// What must hold for a descriptor before anything of it is used.
#pragma once

#include <kvplane/plugin.h>

#include <string_view>

#include "plugin/manifest.h"

namespace kvplane {

// Throws Error(plugin), whose text is the reason alone: sizes, versions, identity, and for every kind of the manifest a
// table with all functions that the kind requires. Options are read_options' matter.
void validate_descriptor(const kvp_plugin_descriptor* descriptor, const Manifest& manifest);

}  // namespace kvplane
