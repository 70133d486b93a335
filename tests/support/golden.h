// Reads the golden files beside a test. KVPLANE_GOLDEN_DIR is set by the test's CMakeLists.txt.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace kvplane::test {

inline nlohmann::json read_golden(const std::string& name) {
    const std::string path = std::string(KVPLANE_GOLDEN_DIR) + "/" + name;
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + " cannot be read");
    return nlohmann::json::parse(file);
}

}  // namespace kvplane::test
