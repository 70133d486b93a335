#include "plugin/catalog.h"

#include <algorithm>

#include "base/error.h"
#include "plugin/requirements.h"

namespace kvplane {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> libraries_in(const fs::path& folder) {
    std::vector<fs::path> paths;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        if (entry->path().extension() == ".so") paths.push_back(entry->path());
    }
    std::ranges::sort(paths);
    return paths;
}

CatalogEntry describe(const fs::path& path) {
    CatalogEntry entry;
    entry.path = path;
    try {
        entry.manifest = read_manifest(PluginFile(path));
        check_requirements(*entry.manifest);
    } catch (const Error& error) {
        entry.problem = error.what();
    }
    return entry;
}

}  // namespace

std::vector<CatalogEntry> list_plugins(const SearchPath& folders) {
    std::vector<CatalogEntry> entries;
    for (const SearchFolder& folder : folders) {
        for (const fs::path& path : libraries_in(folder.path)) entries.push_back(describe(path));
    }
    return entries;
}

}  // namespace kvplane
