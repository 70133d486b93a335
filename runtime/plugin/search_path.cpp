#include "plugin/search_path.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "observe/log.h"

namespace kvplane {

namespace {

namespace fs = std::filesystem;

bool is_shared_library(const fs::path& file) {
    return file.filename().string().find(".so") != std::string::npos;
}

// libkvplane when it is embedded, else the program.
fs::path own_file() {
    std::error_code error;
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(&own_file), &info) != 0 && info.dli_fname != nullptr) {
        const fs::path object = fs::canonical(info.dli_fname, error);
        if (!error && is_shared_library(object)) return object;
    }
    return fs::read_symlink("/proc/self/exe", error);
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
    const fs::path self = own_file();
    const fs::path folder = self.parent_path();
    if (is_shared_library(self)) {
        add(path, folder / "kvplane", "built in");
    } else {
        // The build tree, and an installation whose library folder has another name (Debian's lib/x86_64-linux-gnu).
        add(path, folder / "../lib/kvplane", "built in");
        add(path, folder / KVPLANE_INSTALLED_PLUGINS, "built in");
    }
    return path;
}

}  // namespace kvplane
