// Errors inside the plugin are exceptions; at the ABI they become a status and a text for the host.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kvplane/host.h"

namespace kvplane::cpu {

class PluginError : public std::runtime_error {
public:
    PluginError(kvp_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
    kvp_status status() const { return status_; }

private:
    kvp_status status_;
};

[[noreturn]] inline void invalid(const std::string& message) {
    throw PluginError(KVP_ERROR_INVALID, message);
}
[[noreturn]] inline void unsupported(const std::string& message) {
    throw PluginError(KVP_UNSUPPORTED, message);
}

// The host that init gave; NULL before.
const kvp_host* host();
void set_host(const kvp_host* host);
void set_error(const char* message) noexcept;

// Runs an entry point's body; nothing leaves it but a status.
template <typename Body>
kvp_status guarded(Body&& body) noexcept {
    try {
        if constexpr (std::is_same_v<decltype(body()), kvp_status>) {
            return body();
        } else {
            body();
            return KVP_OK;
        }
    } catch (const PluginError& error) {
        set_error(error.what());
        return error.status();
    } catch (const std::bad_alloc&) {
        set_error("the CPU device ran out of memory; lower the batch or the context");
        return KVP_ERROR_MEMORY;
    } catch (const std::exception& error) {
        set_error(error.what());
        return KVP_ERROR_INTERNAL;
    } catch (...) {
        set_error("unknown exception in the CPU device");
        return KVP_ERROR_INTERNAL;
    }
}

}  // namespace kvplane::cpu
