// SDK, plugin: what the one exported function returns.
//
//   KVP_MANIFEST(KVP_MANIFEST_JSON("kv", "mine", "1.0.0"));
//   constexpr auto descriptor = kvp::describe("mine", "1.0.0", "me", option_pointers, &init, &fini, &get_kind);
//   KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host*) { return &descriptor; }
#pragma once

#include <array>

#include "kvplane/manifest.h"
#include "kvplane/plugin.h"
#include "kvplane/sdk/host.hpp"
#include "kvplane/sdk/option.hpp"

// The manifest of a plugin of one kind that needs nothing of the machine.
#define KVP_MANIFEST_JSON(kind, id, version)                             \
    "{\"kinds\":[\"" kind "\"],\"id\":\"" id "\",\"version\":\"" version \
    "\",\"abi\":\"1.0\",\"sanitizer\":\"" KVP_MANIFEST_SANITIZER "\"}"

namespace kvp {

template <size_t n>
constexpr kvp_plugin_descriptor describe(std::string_view id, std::string_view version, std::string_view vendor,
                                         const std::array<const kvp_option*, n>& options,
                                         kvp_status (*init)(const kvp_host*), void (*fini)(),
                                         const void* (*get_kind)(kvp_str)) {
    auto made = make<kvp_plugin_descriptor>();
    made.id = str(id);
    made.version = str(version);
    made.vendor = str(vendor);
    made.abi_minor = KVP_ABI_MINOR;
    made.min_host_minor = KVP_ABI_MINOR;
    made.n_options = static_cast<uint32_t>(n);
    made.options = n == 0 ? nullptr : options.data();
    made.init = init;
    made.fini = fini;
    made.get_kind = get_kind;
    return made;
}

}  // namespace kvp
