// The folders where a plugin is looked for by its id. The working folder is not among them, and no bare name ever gets
// to the dynamic linker.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvplane {

struct SearchFolder {
    std::filesystem::path path;
    std::string origin;  // for messages: "plugins.path", "KVPLANE_PLUGIN_PATH", "built in"
};

using SearchPath = std::vector<SearchFolder>;

// The pipeline's folders (absolute), those of KVPLANE_PLUGIN_PATH (absolute ones, parted by ':'; not for set-user-id
// programs), and that of this installation or build tree. An earlier one wins.
SearchPath standard_search_path(const std::vector<std::string>& pipeline_folders);

}  // namespace kvplane
