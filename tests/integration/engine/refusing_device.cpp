// A third party's device: the cpu plugin, without the ops that KVPLANE_TEST_REFUSED_OPS names ("a b"). "row types": all
// ops are there, cached rows must be f16 or f32.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "kvplane/device.h"
#include "kvplane/manifest.h"
#include "kvplane/plugin.h"

KVP_MANIFEST(
    "{\"kinds\":[\"device\"],\"id\":\"refusing\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"sanitizer\":"
    "\"" KVP_MANIFEST_SANITIZER "\"}");

namespace {

const kvp_plugin_descriptor* inner = nullptr;
const kvp_device* inner_device = nullptr;
kvp_device table;

constexpr kvp_str text(std::string_view chars) {
    return {chars.data(), chars.size()};
}

bool refuses(const kvp_op_request* request) {
    const char* const refused = std::getenv("KVPLANE_TEST_REFUSED_OPS");
    if (refused != nullptr && std::string(refused) == "row types") {
        return request->attributes != nullptr &&
               std::string_view(request->op.data, request->op.n_bytes) == "kvp.attention/1";
    }
    const std::string wanted = " " + std::string(request->op.data, request->op.n_bytes) + " ";
    return refused != nullptr && (" " + std::string(refused) + " ").find(wanted) != std::string::npos;
}

kvp_status op_support(kvp_device_object* device, const kvp_op_request* request, kvp_op_answer* answer) {
    if (!refuses(request)) return inner_device->op_support(device, request, answer);
    std::strcpy(answer->reason, "this device does not have it");
    return KVP_UNSUPPORTED;
}

kvp_status op_prepare(kvp_device_object* device, const kvp_op_request* request, kvp_plan** plan) {
    return refuses(request) ? kvp_status{KVP_UNSUPPORTED} : inner_device->op_prepare(device, request, plan);
}

kvp_status init(const kvp_host* host) {
    return inner->init(host);
}

void fini() {
    inner->fini();
}

const void* get_kind(kvp_str) {
    return &table;
}

}  // namespace

KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host* host) {
    void* const library = dlopen(KVPLANE_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    inner = reinterpret_cast<kvp_plugin_query_fn>(dlsym(library, KVP_PLUGIN_QUERY_NAME))(host);
    inner_device = static_cast<const kvp_device*>(inner->get_kind(text(KVP_KIND_DEVICE)));
    table = *inner_device;
    table.op_support = op_support;
    table.op_prepare = op_prepare;
    static constexpr kvp_plugin_descriptor descriptor = {
        KVP_HEAD(kvp_plugin_descriptor),
        text("refusing"),
        text("1.0.0"),
        text("test"),
        KVP_ABI_MINOR,
        0,
        KVP_PLUGIN_SPAWNS_THREADS,
        0,
        nullptr,
        init,
        fini,
        get_kind,
    };
    return &descriptor;
}
