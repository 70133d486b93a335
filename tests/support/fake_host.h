// A host for one plugin under test: options from the test, else the defaults that the plugin declares; the last error
// text.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "kvplane/plugin.h"
#include "kvplane/sdk/base.hpp"

namespace kvplane::test {

class FakeHost {
public:
    using Options = std::map<std::string, std::string>;

    explicit FakeHost(Options options = {}) : options_(std::move(options)) {
        host_ = kvp::make<kvp_host>();
        host_.context = reinterpret_cast<kvp_host_context*>(this);
        host_.abi_major = KVP_ABI_MAJOR;
        host_.abi_minor = KVP_ABI_MINOR;
        host_.log = [](kvp_host_context*, uint32_t, kvp_str) {};
        host_.set_error = [](kvp_host_context* context, kvp_str message) { self(context).error = kvp::view(message); };
        host_.alloc = [](kvp_host_context*, uint64_t n_bytes, uint64_t alignment) {
            return std::aligned_alloc(alignment, (n_bytes + alignment - 1) / alignment * alignment);
        };
        host_.free = [](kvp_host_context*, void* memory, uint64_t, uint64_t) { std::free(memory); };
        host_.option_bool = [](kvp_host_context* context, kvp_str key, uint32_t* value) {
            const std::string* text = self(context).find(key, KVP_OPTION_BOOL);
            return text == nullptr ? kvp_status{KVP_NOT_FOUND} : (*value = *text == "true", kvp_status{KVP_OK});
        };
        host_.option_i64 = [](kvp_host_context* context, kvp_str key, int64_t* value) {
            const std::string* text = self(context).find(key, KVP_OPTION_I64);
            return text == nullptr ? kvp_status{KVP_NOT_FOUND} : (*value = std::stoll(*text), kvp_status{KVP_OK});
        };
        host_.option_f64 = [](kvp_host_context* context, kvp_str key, double* value) {
            const std::string* text = self(context).find(key, KVP_OPTION_F64);
            return text == nullptr ? kvp_status{KVP_NOT_FOUND} : (*value = std::stod(*text), kvp_status{KVP_OK});
        };
        host_.option_str = [](kvp_host_context* context, kvp_str key, kvp_str* value) {
            const std::string* text = self(context).find(key, KVP_OPTION_STR);
            return text == nullptr ? kvp_status{KVP_NOT_FOUND} : (*value = kvp::str(*text), kvp_status{KVP_OK});
        };
        host_.now_ns = [](kvp_host_context*) { return uint64_t{0}; };
        host_.is_stopping = [](kvp_host_context*) { return 0u; };
        host_.get_extension = [](kvp_host_context*, kvp_str) -> const void* { return nullptr; };
    }
    FakeHost(const FakeHost&) = delete;
    FakeHost& operator=(const FakeHost&) = delete;

    const kvp_host* get() const { return &host_; }

    // Takes the plugin's own option table: names, types, defaults.
    void declare(const kvp_plugin_descriptor& descriptor) {
        for (uint32_t i = 0; i < descriptor.n_options; i++) {
            const kvp_option& option = *descriptor.options[i];
            const std::string key(kvp::view(option.key));
            types_[key] = option.type;
            options_.try_emplace(key, kvp::view(option.default_value));
        }
    }

    std::string error;

private:
    static FakeHost& self(kvp_host_context* context) { return *reinterpret_cast<FakeHost*>(context); }

    const std::string* find(kvp_str key, uint32_t type) const {
        const std::string name(kvp::view(key));
        // "threads" is the core's own key: devices may ask for it without declaring it.
        const auto declared = types_.find(name);
        if (name != "threads" && (declared == types_.end() || declared->second != type)) return nullptr;
        const auto found = options_.find(name);
        return found == options_.end() ? nullptr : &found->second;
    }

    kvp_host host_;
    Options options_;
    std::map<std::string, uint32_t> types_;
};

// A plugin, opened by path and initialised with a host of its own. Stays mapped, as in the core.
class LoadedPlugin {
public:
    LoadedPlugin(const std::string& path, FakeHost::Options options) : host(std::move(options)) {
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) throw std::runtime_error(dlerror());
        const auto query = reinterpret_cast<kvp_plugin_query_fn>(dlsym(library, KVP_PLUGIN_QUERY_NAME));
        if (query == nullptr) throw std::runtime_error(path + " has no " KVP_PLUGIN_QUERY_NAME);
        descriptor = query(host.get());
        host.declare(*descriptor);
        if (descriptor->init(host.get()) != KVP_OK) throw std::runtime_error(path + " refuses to start: " + host.error);
    }
    ~LoadedPlugin() {
        if (descriptor->fini != nullptr) descriptor->fini();
    }
    LoadedPlugin(const LoadedPlugin&) = delete;
    LoadedPlugin& operator=(const LoadedPlugin&) = delete;

    template <typename Table>
    const Table* kind(const char* name) const {
        return static_cast<const Table*>(descriptor->get_kind(kvp::str(name)));
    }

    FakeHost host;
    const kvp_plugin_descriptor* descriptor;
};

}  // namespace kvplane::test
