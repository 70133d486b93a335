#include "plugin/search_path.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "observe/log.h"

namespace kvplane {

namespace {

namespace fs = std::filesystem;

// Where the code of this function lies: the program, or libkvplane when it is embedded as a shared library.
fs::path own_folder() {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) != 0 && info.dli_fname != nullptr) {
        const fs::path object = fs::canonical(info.dli_fname, error);
        if (!error && object.filename().string().find(".so") != std::string::npos) return object.parent_path();
    }
    return program.parent_path();
}

void add(SearchPath& path, const fs::path& folder, const std::string& origin) {
    const fs::path plain = folder.lexically_normal();
    if (std::ranges::find(path, plain, &SearchFolder::path) == path.end()) path.push_back({plain, origin});
}

}  // namespace

SearchPath standard_search_path(const std::vector<std::string>& pipeline_folders) {
    SearchPath path;
    for (const std::string& folder : pipeline_folders) add(path, folder, "plugins.path");
    if (const char* const folders = secure_getenv("KVPLANE_PLUGIN_PATH")) {
        std::istringstream parts(folders);
        for (std::string folder; std::getline(parts, folder, ':');) {
            if (folder.empty()) continue;
            if (fs::path(folder).is_absolute()) {
                add(path, folder, "KVPLANE_PLUGIN_PATH");
            } else {
                log("plugin").warn("KVPLANE_PLUGIN_PATH: ", folder, " is left out, it is not absolute");
            }
        }
    }
    // The build tree, and an installation whose library folder has another name (Debian's lib/x86_64-linux-gnu).
    add(path, own_folder() / "../lib/kvplane", "built in");
    add(path, own_folder() / KVPLANE_INSTALLED_PLUGINS, "built in");
    return path;
}

}  // namespace kvplane
