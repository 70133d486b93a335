// Which plugins lie in the search folders, by their notes alone: nothing is opened, nothing runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plugin/manifest.h"
#include "plugin/search_path.h"

namespace kvplane {

struct CatalogEntry {
    std::filesystem::path path;
    std::optional<Manifest> manifest;  // empty: the file is no plugin that this program could read
    std::string problem;               // why it would be refused; empty: nothing is known against it
};

// Every *.so of the folders, in their order, by name within one. Folders that are not there are skipped.
std::vector<CatalogEntry> list_plugins(const SearchPath& folders);

}  // namespace kvplane
