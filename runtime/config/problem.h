// Where a value came from, and what is wrong with it, said so that it can be put right at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvplane {

// In rising order of precedence.
enum class OriginKind { by_default, file, environment, override_option };

struct Origin {
    OriginKind kind = OriginKind::by_default;
    std::string name;     // the file, the environment variable, or KEY=VALUE of --set
    uint32_t line = 0;    // file only, from 1
    uint32_t column = 0;  // file only, from 1, in characters
};

// "default", "pipeline.toml:3:7", "env KVPLANE_KV_PLUGIN", "--set kv.plugin=dense"
std::string to_string(const Origin& origin);

// A stretch of text that a message points at.
struct Place {
    Origin origin;
    std::string text;     // the whole line
    uint32_t column = 1;  // where the caret goes, from 1, in characters
    uint32_t length = 1;  // how many characters are underlined
};

struct Problem {
    Place place;
    std::string what;     // "unknown key kv.plugn"
    std::string allowed;  // what would be right; may be empty
    std::string nearest;  // the likeliest name; may be empty
};

std::string to_string(const Problem& problem);

// Problems are collected, so that one run shows all of them.
class Problems {
public:
    void add(Problem problem) { problems_.push_back(std::move(problem)); }
    bool empty() const { return problems_.empty(); }

    // Throws Error(config) with all of them, in the order of the file, then environment, then --set.
    void throw_if_any() const;

private:
    std::vector<Problem> problems_;
};

}  // namespace kvplane
