#include "error.h"

#include <cstring>

namespace kvplane::cpu {
namespace {
const kvp_host* current_host = nullptr;
}

const kvp_host* host() {
    return current_host;
}

void set_host(const kvp_host* host) {
    current_host = host;
}

void set_error(const char* message) noexcept {
    if (KVP_HAS(kvp_host, current_host, set_error)) {
        current_host->set_error(current_host->context, {message, std::strlen(message)});
    }
}

}  // namespace kvplane::cpu
