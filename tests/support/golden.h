// Reads the golden files beside a test. KVPLANE_GOLDEN_DIR is set by the test's CMakeLists.txt.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "support/json_text.h"

namespace kvplane::test {

inline nlohmann::json read_golden(const std::string& name) {
    return read_json(std::string(KVPLANE_GOLDEN_DIR) + "/" + name);
}

}  // namespace kvplane::test
