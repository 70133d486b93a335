#include "plugin/loader.h"

// Else Boost.DLL wants Boost.Filesystem, a compiled library.
#define BOOST_DLL_USE_STD_FS
#include <dlfcn.h>

#include <boost/dll/shared_library.hpp>

#include "config/suggest.h"
#include "plugin/catalog.h"
#include "plugin/library.h"
#include "plugin/options.h"
#include "plugin/requirements.h"
#include "plugin/status.h"
#include "plugin/steps.h"
#include "plugin/validate.h"

namespace kvplane {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorKind::plugin, reason);
}

std::string join(const std::vector<std::string>& texts) {
    std::string joined;
    for (const std::string& text : texts) joined += (joined.empty() ? "" : ", ") + text;
    return joined;
}

bool is_path(const std::string& reference) {
    return reference.find('/') != std::string::npos || reference.ends_with(".so");
}

// Maps the library; its constructors run here.
boost::dll::shared_library open_library(const fs::path& path) {
    using boost::dll::load_mode::type;
    // Boost.DLL has no name for RTLD_NODELETE, but hands unknown bits on to dlopen. A plugin stays mapped for good:
    // its threads and thread-local destructors may still run when its last user is gone.
    const auto mode = static_cast<type>(boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local |
                                        static_cast<type>(RTLD_NODELETE));
    boost::dll::shared_library library;
    std::error_code error;
    library.load(path, mode, error);
    if (error) {
        // Boost's own text is "Bad file descriptor", whatever happened; the linker's names the library or symbol.
        const char* const reason = dlerror();
        refuse(reason != nullptr ? reason : error.message());
    }
    return library;
}

const kvp_plugin_descriptor* query(const boost::dll::shared_library& library, PluginHost& host) {
    if (!library.has(KVP_PLUGIN_QUERY_NAME)) {
        refuse("exports no function " KVP_PLUGIN_QUERY_NAME ", so it does not speak ABI major " +
               std::to_string(KVP_ABI_MAJOR));
    }
    const auto function = &library.get<std::remove_pointer_t<kvp_plugin_query_fn>>(KVP_PLUGIN_QUERY_NAME);
    host.take_error();
    const kvp_plugin_descriptor* descriptor = nullptr;
    try {
        descriptor = function(host.table());
    } catch (const std::exception& error) {
        refuse(std::string("threw an exception out of its query function, which no plugin may: ") + error.what());
    } catch (...) {
        refuse("threw an exception out of its query function, which no plugin may");
    }
    if (descriptor == nullptr) {
        const std::string reason = host.take_error();
        refuse("it refuses this program" + (reason.empty() ? "; it gives no reason" : ", because " + reason));
    }
    return descriptor;
}

}  // namespace

LoadedLibraries& loaded_libraries() {
    static auto* const libraries = new LoadedLibraries;
    return *libraries;
}

fs::path PluginLoader::resolve(const std::string& reference, std::string_view kind, const fs::path& relative_to) const {
    if (reference.empty()) refuse("no plugin is named");
    if (!is_path(reference)) return find_by_id(reference, kind);
    const fs::path path =
        fs::path(reference).is_absolute() ? fs::path(reference) : fs::absolute(relative_to / reference);
    std::error_code error;
    if (!fs::exists(path, error)) refuse("no file " + path.lexically_normal().string());
    return path.lexically_normal();
}

fs::path PluginLoader::find_by_id(const std::string& id, std::string_view kind) const {
    std::vector<std::string> ids;
    std::string refused;
    const CatalogEntry* found = nullptr;
    const std::vector<CatalogEntry> entries = list_plugins(folders_);
    for (const CatalogEntry& entry : entries) {
        if (!entry.manifest) {
            // Nobody knows what it would be, but its name says that it is meant.
            if (entry.path.stem() == id) refused += "; " + entry.path.string() + " is there, but " + entry.problem;
            continue;
        }
        if (!entry.manifest->serves(kind)) continue;
        ids.push_back(entry.manifest->id);
        if (entry.manifest->id != id) continue;
        if (found == nullptr) {
            found = &entry;
        } else if (found->path.parent_path() == entry.path.parent_path()) {
            refuse("two plugins have this id: " + found->path.string() + " and " + entry.path.string() +
                   "; remove one, or name the path");
        }
    }
    if (found != nullptr) return found->path;

    std::vector<std::string> places;
    for (const SearchFolder& folder : folders_) places.push_back(folder.path.string() + " (" + folder.origin + ")");
    const std::string near = nearest(id, ids);
    refuse("no " + std::string(kind) + (kind.empty() ? "" : " ") + "plugin of this id" + refused +
           (near.empty() ? "" : "; did you mean \"" + near + "\"?") + (ids.empty() ? "" : "; there are: " + join(ids)) +
           "; searched: " + join(places));
}

std::shared_ptr<Plugin> PluginLoader::open(const std::string& reference, std::string_view kind,
                                           const fs::path& relative_to) const {
    LoadedLibraries& libraries = loaded_libraries();
    std::lock_guard lock(libraries.mutex);

    std::vector<LoadStep> steps;
    std::string subject = "plugin \"" + reference + "\"";
    fs::path path;
    std::optional<PluginFile> file;
    Manifest manifest;
    run_step(steps, "resolve", subject, [&] { path = resolve(reference, kind, relative_to); });
    steps.back().reason = path;
    if (reference != path) subject += " (" + path.string() + ")";
    run_step(steps, "check file", subject, [&] { file.emplace(path); });
    run_step(steps, "read note", subject, [&] {
        manifest = read_manifest(*file);
        check_requirements(manifest);
        if (!manifest.serves(kind)) {
            refuse("serves " + join(manifest.kinds) + ", not " + std::string(kind) + "; it cannot stand here");
        }
    });

    std::unique_ptr<LoadedLibrary>& slot = libraries.by_identity[file->identity()];
    if (slot != nullptr) {
        if (std::shared_ptr<Plugin> plugin = slot->plugin.lock()) return plugin;
    }
    boost::dll::shared_library handle;
    const kvp_plugin_descriptor* descriptor = nullptr;
    run_step(steps, "open", subject, [&] { handle = open_library(path); });
    // From here on the mapping holds the inode, so that no other file can get this identity.
    if (slot == nullptr) slot = std::make_unique<LoadedLibrary>(manifest.id);
    LoadedLibrary& library = *slot;
    run_step(steps, "query", subject, [&] { descriptor = query(handle, library.host); });
    run_step(steps, "validate", subject, [&] {
        validate_descriptor(descriptor, manifest);
        library.options = read_options(*descriptor);
        library.descriptor = descriptor;
    });
    auto plugin = std::make_shared<Plugin>(library, std::move(manifest), path, std::move(steps));
    library.plugin = plugin;
    return plugin;
}

}  // namespace kvplane
