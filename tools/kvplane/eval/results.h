// Results of an evaluation as it goes, in a file of JSON Lines, so that a run that was interrupted goes on where it was.
#pragma once

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace kvplane::tool {

class Results {
public:
    // Empty: nothing is kept. Reads what is there; half a line at the end, of a run that was killed, is cut off. Throws
    // Error(usage) for a file of another kind or that cannot be written.
    explicit Results(const std::string& file);

    bool kept() const { return !file_.empty(); }
    // The result of this key, null when there is none.
    const nlohmann::json* find(const std::string& key) const;
    // Appends it, on the disk's way before this returns. `about`: what a person wants to know of it.
    void add(const std::string& key, const nlohmann::ordered_json& about, nlohmann::json result);

private:
    std::string file_;
    std::ofstream out_;
    std::map<std::string, nlohmann::json> known_;
};

}  // namespace kvplane::tool
