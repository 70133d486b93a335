#include "plugin/status.h"

namespace kvplane {

std::string describe_status(kvp_status status) {
    switch (status) {
        case KVP_OK: return "done (KVP_OK)";
        case KVP_AGAIN: return "not ready (KVP_AGAIN)";
        case KVP_NO_SPACE: return "the budget is used up (KVP_NO_SPACE)";
        case KVP_NOT_FOUND: return "nothing by that name (KVP_NOT_FOUND)";
        case KVP_UNSUPPORTED: return "not supported (KVP_UNSUPPORTED)";
        case KVP_STOPPED: return "stopping (KVP_STOPPED)";
        case KVP_ERROR_INVALID: return "a wrong argument (KVP_ERROR_INVALID)";
        case KVP_ERROR_MEMORY: return "an allocation failed (KVP_ERROR_MEMORY)";
        case KVP_ERROR_IO: return "a read, write or copy failed (KVP_ERROR_IO)";
        case KVP_ERROR_DEVICE: return "the device failed (KVP_ERROR_DEVICE)";
        case KVP_ERROR_CORRUPT: return "data failed its check (KVP_ERROR_CORRUPT)";
        case KVP_ERROR_INTERNAL: return "an internal fault (KVP_ERROR_INTERNAL)";
        case KVP_ERROR_TIMEOUT: return "the deadline passed (KVP_ERROR_TIMEOUT)";
        case KVP_ERROR_VERSION: return "the two sides cannot talk (KVP_ERROR_VERSION)";
        default: return "status " + std::to_string(status);
    }
}

}  // namespace kvplane
