// Finds, checks and opens the plugins that a pipeline names. The order of the steps is fixed: nothing of a plugin runs
// before its file and its note were found good, and nothing is tried that the pipeline does not name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "plugin/plugin.h"
#include "plugin/search_path.h"

namespace kvplane {

// `reference` is a plugin's id, looked for by the notes in the search folders (what a file is called does not matter),
// or a path: anything with a '/' or that ends in ".so", relative to `relative_to` unless absolute.
class PluginLoader {
public:
    explicit PluginLoader(SearchPath folders) : folders_(std::move(folders)) {}

    // All steps but init; an empty kind: any. The caller then knows plugin->options(), and calls plugin->init(). Throws
    // LoadError. The same file, under whatever name, is loaded once, and shared.
    std::shared_ptr<Plugin> open(const std::string& reference, std::string_view kind,
                                 const std::filesystem::path& relative_to) const;

    // The file that a reference means. Throws Error(plugin), whose text is the reason alone, with all places tried.
    std::filesystem::path resolve(const std::string& reference, std::string_view kind,
                                  const std::filesystem::path& relative_to) const;

    const SearchPath& folders() const { return folders_; }

private:
    std::filesystem::path find_by_id(const std::string& id, std::string_view kind) const;

    SearchPath folders_;
};

}  // namespace kvplane
