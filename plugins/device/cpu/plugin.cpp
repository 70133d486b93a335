// The plugin's identity and its one exported function.
#include "kvplane/plugin.h"

#include <string_view>

#include "device_table.h"
#include "error.h"
#include "kvplane/manifest.h"

KVP_MANIFEST(
    "{\"kinds\":[\"device\"],\"id\":\"cpu\",\"version\":\"0.1.0\",\"abi\":\"1.0\",\"sanitizer\":"
    "\"" KVP_MANIFEST_SANITIZER "\"}");

namespace {

constexpr kvp_str text(std::string_view chars) {
    return {chars.data(), chars.size()};
}

constexpr kvp_option pin_threads = {
    KVP_HEAD(kvp_option),
    text("pin_threads"),
    KVP_OPTION_BOOL,
    0,
    text("false"),
    0,
    0,
    text(""),
    text("tie each thread of the plugin to a processor; left out where a control group limits the process"),
};
constexpr const kvp_option* options[] = {&pin_threads};

kvp_status init(const kvp_host* host) {
    if (!KVP_HAS(kvp_host, host, get_extension)) return KVP_ERROR_VERSION;
    kvplane::cpu::set_host(host);
    return KVP_OK;
}

void fini() {
    kvplane::cpu::set_host(nullptr);
}

const void* get_kind(kvp_str kind) {
    const std::string_view name(kind.data, kind.n_bytes);
    return name == KVP_KIND_DEVICE ? kvplane::cpu::device_table() : nullptr;
}

}  // namespace

KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host*) {
    static constexpr kvp_plugin_descriptor descriptor = {
        KVP_HEAD(kvp_plugin_descriptor),
        text("cpu"),
        text("0.1.0"),
        text("kvplane"),
        KVP_ABI_MINOR,
        0,
        KVP_PLUGIN_SPAWNS_THREADS,
        1,
        options,
        init,
        fini,
        get_kind,
    };
    return &descriptor;
}
