#include "plugin/validate.h"

#include <kvplane/codec.h>
#include <kvplane/device.h>
#include <kvplane/kv.h>
#include <kvplane/transfer.h>

#include <string>

#include "base/error.h"
#include "plugin/status.h"

namespace kvplane {

namespace {

constexpr uint32_t max_struct_bytes = 64 * 1024;

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorKind::plugin, reason);
}

void check_size(const kvp_head& head, size_t least, const std::string& what) {
    const uint32_t size = head.struct_size;
    const std::string text = what + " says a struct_size of " + std::to_string(size);
    if (size < least) refuse(text + ", less than the " + std::to_string(least) + " bytes that are required");
    if (size > max_struct_bytes) refuse(text + ", more than the " + std::to_string(max_struct_bytes) + " allowed");
    if (size % 8 != 0) refuse(text + ", which is no multiple of 8");
}

// The required functions of each kind (its header marks the optional ones).
#define KVPLANE_REQUIRE(type, member) \
    if (!KVP_HAS(type, table, member)) return #member

const char* missing_function(const kvp_device* table) {
    KVPLANE_REQUIRE(kvp_device, count);
    KVPLANE_REQUIRE(kvp_device, info);
    KVPLANE_REQUIRE(kvp_device, open);
    KVPLANE_REQUIRE(kvp_device, close);
    KVPLANE_REQUIRE(kvp_device, alloc);
    KVPLANE_REQUIRE(kvp_device, free);
    KVPLANE_REQUIRE(kvp_device, queue_create);
    KVPLANE_REQUIRE(kvp_device, queue_destroy);
    KVPLANE_REQUIRE(kvp_device, event_create);
    KVPLANE_REQUIRE(kvp_device, event_destroy);
    KVPLANE_REQUIRE(kvp_device, signal);
    KVPLANE_REQUIRE(kvp_device, wait);
    KVPLANE_REQUIRE(kvp_device, event_query);
    KVPLANE_REQUIRE(kvp_device, host_wait);
    KVPLANE_REQUIRE(kvp_device, host_signal);
    KVPLANE_REQUIRE(kvp_device, copy);
    KVPLANE_REQUIRE(kvp_device, op_support);
    KVPLANE_REQUIRE(kvp_device, op_prepare);
    KVPLANE_REQUIRE(kvp_device, op_release);
    KVPLANE_REQUIRE(kvp_device, op_enqueue);
    return nullptr;
}

const char* missing_function(const kvp_kv* table) {
    KVPLANE_REQUIRE(kvp_kv, create);
    KVPLANE_REQUIRE(kvp_kv, destroy);
    KVPLANE_REQUIRE(kvp_kv, attn_plan);
    return nullptr;
}

const char* missing_function(const kvp_codec* table) {
    KVPLANE_REQUIRE(kvp_codec, info);
    KVPLANE_REQUIRE(kvp_codec, encode);
    KVPLANE_REQUIRE(kvp_codec, decode);
    KVPLANE_REQUIRE(kvp_codec, encoded_bytes);
    return nullptr;
}

const char* missing_function(const kvp_transfer* table) {
    KVPLANE_REQUIRE(kvp_transfer, pair);
    KVPLANE_REQUIRE(kvp_transfer, open);
    KVPLANE_REQUIRE(kvp_transfer, close);
    KVPLANE_REQUIRE(kvp_transfer, add_memory);
    KVPLANE_REQUIRE(kvp_transfer, remove_memory);
    KVPLANE_REQUIRE(kvp_transfer, submit);
    KVPLANE_REQUIRE(kvp_transfer, poll);
    return nullptr;
}
#undef KVPLANE_REQUIRE

template <class Table>
void check_table(const void* pointer, const std::string& what) {
    const auto* const table = static_cast<const Table*>(pointer);
    check_size(table->head, sizeof(kvp_head), what);
    if (const char* const name = missing_function(table)) refuse(what + " lacks the required function " + name);
}

void check_kind(const kvp_plugin_descriptor& descriptor, const std::string& kind) {
    const void* table = nullptr;
    try {
        table = descriptor.get_kind(to_kvp_str(kind));
    } catch (...) {
        refuse("threw an exception out of get_kind, which no plugin may");
    }
    if (table == nullptr) refuse("its manifest names the kind " + kind + ", but get_kind gives no table for it");
    const std::string what = "its " + kind + " table";
    if (kind == KVP_KIND_DEVICE) check_table<kvp_device>(table, what);
    if (kind == KVP_KIND_KV) check_table<kvp_kv>(table, what);
    if (kind == KVP_KIND_CODEC) check_table<kvp_codec>(table, what);
    if (kind == KVP_KIND_TRANSFER) check_table<kvp_transfer>(table, what);
}

}  // namespace

void validate_descriptor(const kvp_plugin_descriptor* descriptor, const Manifest& manifest) {
    check_size(descriptor->head, offsetof(kvp_plugin_descriptor, get_kind) + sizeof(descriptor->get_kind),
               "its descriptor");
    if (const std::string id = to_string(descriptor->id); id != manifest.id) {
        refuse("its descriptor says the id \"" + id + "\", its manifest \"" + manifest.id +
               "\"; they must be the same");
    }
    if (descriptor->min_host_minor > KVP_ABI_MINOR) {
        refuse("needs ABI " + std::to_string(KVP_ABI_MAJOR) + "." + std::to_string(descriptor->min_host_minor) +
               " or newer, this program has " + std::to_string(KVP_ABI_MAJOR) + "." + std::to_string(KVP_ABI_MINOR) +
               "; update kvplane");
    }
    if (!KVP_HAS(kvp_plugin_descriptor, descriptor, init)) refuse("its descriptor lacks the required function init");
    if (!KVP_HAS(kvp_plugin_descriptor, descriptor, fini)) refuse("its descriptor lacks the required function fini");
    if (!KVP_HAS(kvp_plugin_descriptor, descriptor, get_kind)) {
        refuse("its descriptor lacks the required function get_kind");
    }
    for (const std::string& kind : manifest.kinds) check_kind(*descriptor, kind);
}

}  // namespace kvplane
