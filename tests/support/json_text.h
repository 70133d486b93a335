// JSON of golden files and of the program's output. Compiled once: under the sanitizers the parser takes a third of the
// time of every file that it is part of.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kvplane::test {

// Throws std::runtime_error, with the text, if it is not JSON.
nlohmann::json parse_json(const std::string& text);

// Throws std::runtime_error, with the path, if the file cannot be read or is not JSON.
nlohmann::json read_json(const std::string& path);

}  // namespace kvplane::test
