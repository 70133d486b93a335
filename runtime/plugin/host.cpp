#include "plugin/host.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <variant>

#include "base/checked.h"
#include "plugin/status.h"

namespace kvplane {

namespace {

std::atomic<bool> stopping = false;

// One text a thread is enough: it belongs to the status that the plugin is about to return.
struct LastError {
    const PluginHost* host = nullptr;
    std::string text;
};
thread_local LastError last_error;

PluginHost& host_of(kvp_host_context* context) {
    return *reinterpret_cast<PluginHost*>(context);
}

// Plugins in C call these: nothing may be thrown through them.
void host_log(kvp_host_context* context, uint32_t level, kvp_str message) try {
    Log& log = host_of(context).log();
    const std::string text = to_string(message);
    switch (level) {
        case KVP_LOG_TRACE: return log.write(LogLevel::trace, text);
        case KVP_LOG_DEBUG: return log.write(LogLevel::debug, text);
        case KVP_LOG_INFO: return log.write(LogLevel::info, text);
        case KVP_LOG_WARN: return log.write(LogLevel::warn, text);
        case KVP_LOG_HOST_MISBEHAVING: return log.write(LogLevel::error, "the core misbehaves: " + text);
        case KVP_LOG_PLUGIN_MISBEHAVING: return log.write(LogLevel::error, "the plugin misbehaves: " + text);
        default: return log.write(LogLevel::error, text);
    }
} catch (...) {
}

void host_set_error(kvp_host_context* context, kvp_str message) try {
    last_error.host = &host_of(context);
    last_error.text = to_string(message);
} catch (...) {
    last_error.host = nullptr;
}

void* host_alloc(kvp_host_context*, uint64_t n_bytes, uint64_t alignment) {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) return nullptr;
    const auto rounded = checked_round_up(n_bytes == 0 ? 1 : n_bytes, alignment);
    return rounded ? std::aligned_alloc(alignment, *rounded) : nullptr;
}

void host_free(kvp_host_context*, void* memory, uint64_t, uint64_t) {
    std::free(memory);
}

template <class Value>
const Value* find_option(kvp_host_context* context, kvp_str key) {
    if (key.data == nullptr) return nullptr;
    const OptionValues& options = host_of(context).options();
    const auto found = options.find(std::string_view(key.data, key.n_bytes));
    return found == options.end() ? nullptr : std::get_if<Value>(&found->second);
}

kvp_status host_option_bool(kvp_host_context* context, kvp_str key, uint32_t* value) {
    const bool* const option = find_option<bool>(context, key);
    if (option == nullptr) return KVP_NOT_FOUND;
    *value = *option ? 1 : 0;
    return KVP_OK;
}

kvp_status host_option_i64(kvp_host_context* context, kvp_str key, int64_t* value) {
    const int64_t* const option = find_option<int64_t>(context, key);
    if (option == nullptr) return KVP_NOT_FOUND;
    *value = *option;
    return KVP_OK;
}

kvp_status host_option_f64(kvp_host_context* context, kvp_str key, double* value) {
    const double* const option = find_option<double>(context, key);
    if (option == nullptr) return KVP_NOT_FOUND;
    *value = *option;
    return KVP_OK;
}

kvp_status host_option_str(kvp_host_context* context, kvp_str key, kvp_str* value) {
    const std::string* const option = find_option<std::string>(context, key);
    if (option == nullptr) return KVP_NOT_FOUND;
    *value = to_kvp_str(*option);
    return KVP_OK;
}

uint64_t host_now_ns(kvp_host_context*) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

uint32_t host_is_stopping(kvp_host_context*) {
    return stopping.load(std::memory_order_relaxed) ? 1 : 0;
}

// No extension exists in this minor.
const void* host_get_extension(kvp_host_context*, kvp_str) {
    return nullptr;
}

}  // namespace

PluginHost::PluginHost(const std::string& plugin_id)
    : table_{.head = KVP_HEAD(kvp_host),
             .context = reinterpret_cast<kvp_host_context*>(this),
             .abi_major = KVP_ABI_MAJOR,
             .abi_minor = KVP_ABI_MINOR,
             .log = host_log,
             .set_error = host_set_error,
             .alloc = host_alloc,
             .free = host_free,
             .option_bool = host_option_bool,
             .option_i64 = host_option_i64,
             .option_f64 = host_option_f64,
             .option_str = host_option_str,
             .now_ns = host_now_ns,
             .is_stopping = host_is_stopping,
             .get_extension = host_get_extension},
      log_(kvplane::log("plugin." + plugin_id)) {}

std::string PluginHost::take_error() {
    if (last_error.host != this) return {};
    last_error.host = nullptr;
    return std::move(last_error.text);
}

void set_stopping(bool value) noexcept {
    stopping.store(value, std::memory_order_relaxed);
}

}  // namespace kvplane
