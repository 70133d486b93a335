#include "base/error.h"

namespace kvplane {

const char* to_string(ErrorKind kind) noexcept {
    switch (kind) {
        case ErrorKind::runtime: return "run-time failure";
        case ErrorKind::usage: return "usage";
        case ErrorKind::config: return "configuration";
        case ErrorKind::model: return "model file";
        case ErrorKind::plugin: return "plugin";
        case ErrorKind::memory: return "does not fit memory";
    }
    return "unknown";
}

}  // namespace kvplane
