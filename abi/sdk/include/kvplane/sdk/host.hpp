// SDK, host: the services of kvp_host, and the border where exceptions turn into a status and a text.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kvplane/host.h"
#include "kvplane/sdk/base.hpp"

namespace kvp {

// An error with the status that the core shall see. Any other exception counts as KVP_ERROR_INTERNAL.
class Failure : public std::runtime_error {
public:
    Failure(kvp_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
    kvp_status status() const noexcept { return status_; }

private:
    kvp_status status_;
};

// A status of the core that the plugin only hands on: the core has its text already.
class Passed : public std::exception {
public:
    explicit Passed(kvp_status status) : status_(status) {}
    kvp_status status() const noexcept { return status_; }
    const char* what() const noexcept override { return "the core refused a call"; }

private:
    kvp_status status_;
};

inline void check(kvp_status status) {
    if (status != KVP_OK) throw Passed(status);
}

// Not owning; cheap to copy. A plugin keeps one, set by its init.
class Host {
public:
    Host() = default;
    explicit Host(const kvp_host* host) : host_(host) {}

    void log(uint32_t level, std::string_view message) const {
        if (host_ != nullptr) host_->log(host_->context, level, str(message));
    }
    void set_error(std::string_view message) const {
        if (host_ != nullptr) host_->set_error(host_->context, str(message));
    }

    // Options of the descriptor; the core fills in defaults, so a miss is a bug of the plugin.
    bool option_bool(std::string_view key) const {
        uint32_t value = 0;
        return found(key, host_->option_bool(host_->context, str(key), &value)), value != 0;
    }
    int64_t option_i64(std::string_view key) const {
        int64_t value = 0;
        return found(key, host_->option_i64(host_->context, str(key), &value)), value;
    }
    double option_f64(std::string_view key) const {
        double value = 0;
        return found(key, host_->option_f64(host_->context, str(key), &value)), value;
    }
    std::string_view option_str(std::string_view key) const {
        kvp_str value{};
        return found(key, host_->option_str(host_->context, str(key), &value)), view(value);
    }

    // Runs `body` and never lets an exception out: what it threw becomes the status, its text goes to set_error.
    // `body` returns nothing or a kvp_status.
    template <typename Body>
    kvp_status guard(Body&& body) const noexcept {
        try {
            if constexpr (std::is_void_v<decltype(body())>) {
                body();
                return KVP_OK;
            } else {
                return body();
            }
        } catch (const Passed& passed) {
            return passed.status();
        } catch (const Failure& failure) {
            return report(failure.status(), failure.what());
        } catch (const std::bad_alloc&) {
            return report(KVP_ERROR_MEMORY, "out of host memory");
        } catch (const std::exception& error) {
            return report(KVP_ERROR_INTERNAL, error.what());
        } catch (...) {
            return report(KVP_ERROR_INTERNAL, "an unknown exception");
        }
    }

private:
    void found(std::string_view key, kvp_status status) const {
        if (status == KVP_OK) return;
        throw Failure(KVP_ERROR_INTERNAL, "option '" + std::string(key) + "' is not declared with this type");
    }

    kvp_status report(kvp_status status, const char* message) const noexcept {
        set_error(message);
        return status;
    }

    const kvp_host* host_ = nullptr;
};

}  // namespace kvp
