#include "json_text.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace kvplane::test {

nlohmann::json parse_json(const std::string& text) {
    auto document = nlohmann::json::parse(text, nullptr, false);
    if (document.is_discarded()) throw std::runtime_error("not JSON: " + text);
    return document;
}

nlohmann::json read_json(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + " cannot be read");
    try {
        return parse_json({std::istreambuf_iterator<char>(file), {}});
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(path + ": " + error.what());
    }
}

}  // namespace kvplane::test
