// A plugin that was opened and validated: what it is, what it can be told, and, after init, its tables.
#pragma once

#include <kvplane/codec.h>
#include <kvplane/device.h>
#include <kvplane/kv.h>
#include <kvplane/plugin.h>
#include <kvplane/transfer.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "plugin/host.h"
#include "plugin/manifest.h"

namespace kvplane {

// One step of loading (docs/architecture.md): resolve, check file, read note, open, query, validate, init.
struct LoadStep {
    std::string name;
    uint64_t ns = 0;
    bool ok = false;
    std::string reason;  // why it failed, or what is worth knowing
};

// A plugin that was refused: one line that says which, at which step and why, and the steps up to there.
class LoadError : public Error {
public:
    LoadError(const std::string& message, std::vector<LoadStep> steps)
        : Error(ErrorKind::plugin, message), steps_(std::move(steps)) {}
    const std::vector<LoadStep>& steps() const noexcept { return steps_; }

private:
    std::vector<LoadStep> steps_;
};

template <class Table>
struct PluginKind;
template <>
struct PluginKind<kvp_device> {
    static constexpr const char* name = KVP_KIND_DEVICE;
};
template <>
struct PluginKind<kvp_kv> {
    static constexpr const char* name = KVP_KIND_KV;
};
template <>
struct PluginKind<kvp_codec> {
    static constexpr const char* name = KVP_KIND_CODEC;
};
template <>
struct PluginKind<kvp_transfer> {
    static constexpr const char* name = KVP_KIND_TRANSFER;
};

struct LoadedLibrary;  // the mapped library with its host, alive as long as the process (loader.cpp, library.h)

// Shared by all who use the plugin; the last one to let go runs its fini. The library stays mapped.
class Plugin {
public:
    Plugin(LoadedLibrary& library, Manifest manifest, std::filesystem::path path, std::vector<LoadStep> steps);
    ~Plugin();
    Plugin(const Plugin&) = delete;
    Plugin& operator=(const Plugin&) = delete;

    const std::string& id() const { return manifest_.id; }
    const Manifest& manifest() const { return manifest_; }
    const std::filesystem::path& path() const { return path_; }
    const std::vector<LoadStep>& steps() const { return steps_; }
    const kvp_plugin_descriptor& descriptor() const;

    // The keys of the plugin's own table, without a prefix.
    const std::vector<OptionSpec>& options() const;

    // Starts it with these values over its defaults. Throws LoadError. A process runs a plugin with one set of options:
    // a second init with the same values does nothing, with others it is refused.
    void init(const OptionValues& values);

    // The table of a kind. Throws Error(plugin) when the plugin does not serve it or was not started.
    template <class Table>
    const Table& kind() const {
        return *static_cast<const Table*>(find_kind(PluginKind<Table>::name));
    }

    // "STATUS, because TEXT" of a call that did not return KVP_OK on this thread.
    std::string explain(kvp_status status) const;

private:
    const void* find_kind(const char* kind) const;

    LoadedLibrary& library_;
    Manifest manifest_;
    std::filesystem::path path_;
    std::vector<LoadStep> steps_;
    OptionValues values_;
};

}  // namespace kvplane
