// Loads the example by its path, as a pipeline would, and starts it with an option of its own.
#include <cstdio>
#include <exception>

#include "plugin/loader.h"

int main(int argc, char** argv) try {
    if (argc != 2) throw kvplane::Error(kvplane::ErrorKind::usage, "usage: sdk_example_loads PLUGIN.so");
    const auto plugin = kvplane::PluginLoader({}).open(argv[1], KVP_KIND_KV, "/");
    plugin->init({{"recent", int64_t(64)}});
    const kvp_kv& table = plugin->kind<kvp_kv>();

    kvp_kv_core core = {};
    core.head = KVP_HEAD(kvp_kv_core);
    kvp_kv_model model = {};
    model.head = KVP_HEAD(kvp_kv_model);
    kvp_kv_instance* instance = nullptr;
    const kvp_kv_needs* needs = nullptr;
    if (const kvp_status status = table.create(&core, &model, &instance, &needs); status != KVP_OK) {
        throw kvplane::Error(kvplane::ErrorKind::plugin, plugin->explain(status));
    }
    std::printf("%s runs: %.*s\n", plugin->id().c_str(), static_cast<int>(needs->summary.n_bytes), needs->summary.data);
    table.destroy(instance);
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
