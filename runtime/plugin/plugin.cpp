#include "plugin/plugin.h"

#include "plugin/library.h"
#include "plugin/options.h"
#include "plugin/status.h"
#include "plugin/steps.h"

namespace kvplane {

namespace {

// A plugin may not throw, but one that does shall not take the program down with it.
template <class Call>
auto guarded(const char* function, Call&& call) {
    const std::string text = std::string("threw an exception out of ") + function + ", which no plugin may";
    try {
        return call();
    } catch (const std::exception& error) {
        throw Error(ErrorKind::plugin, text + ": " + error.what());
    } catch (...) {
        throw Error(ErrorKind::plugin, text);
    }
}

void stop(LoadedLibrary& library) {
    library.running = nullptr;
    try {
        guarded("fini", library.descriptor->fini);
    } catch (const Error& error) {
        library.host.log().error(error.what());
    }
}

}  // namespace

Plugin::Plugin(LoadedLibrary& library, Manifest manifest, std::filesystem::path path, std::vector<LoadStep> steps)
    : library_(library), manifest_(std::move(manifest)), path_(std::move(path)), steps_(std::move(steps)) {}

Plugin::~Plugin() {
    std::lock_guard lock(loaded_libraries().mutex);
    if (library_.running == this) stop(library_);
}

const kvp_plugin_descriptor& Plugin::descriptor() const {
    return *library_.descriptor;
}

const std::vector<OptionSpec>& Plugin::options() const {
    return library_.options;
}

void Plugin::init(const OptionValues& values) {
    std::lock_guard lock(loaded_libraries().mutex);
    const bool running = library_.running == this;
    const std::string subject = "plugin \"" + id() + "\" (" + path_.string() + ")";
    std::vector<LoadStep> steps = steps_;
    run_step(steps, "init", subject, [&] {
        OptionValues merged = merge_options(options(), values);
        if (running) {
            if (merged == values_) return;
            throw Error(ErrorKind::plugin, "already in use in this process with other options; end that use first");
        }
        // Its last user is gone, but has not got to its fini yet.
        if (library_.running != nullptr) stop(library_);

        values_ = merged;
        library_.host.set_options(std::move(merged));
        library_.host.take_error();
        const kvp_status status = guarded("init", [&] { return descriptor().init(library_.host.table()); });
        if (status != KVP_OK) throw Error(ErrorKind::plugin, explain(status));
        library_.running = this;
    });
    if (!running) steps_ = std::move(steps);
}

std::string Plugin::explain(kvp_status status) const {
    const std::string reason = library_.host.take_error();
    return describe_status(status) + (reason.empty() ? "; it gives no reason" : ", because " + reason);
}

const void* Plugin::find_kind(const char* kind) const {
    const std::string subject = "plugin \"" + id() + "\" (" + path_.string() + ")";
    if (library_.running != this) throw Error(ErrorKind::plugin, subject + " was not started");
    const void* const table = manifest_.serves(kind) ? descriptor().get_kind(to_kvp_str(kind)) : nullptr;
    if (table == nullptr) throw Error(ErrorKind::plugin, subject + " does not serve the kind " + kind);
    return table;
}

}  // namespace kvplane
