// What a pipeline may say. Every key, of the core and of plugins, is declared once as an OptionSpec; parsing, messages,
// the environment's names and `config explain` all follow from it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kvplane {

enum class OptionType {
    boolean,
    integer,
    real,
    size,  // bytes, written as config/size.h says
    string,
    choice,  // one of `choices`
    path,    // relative to the pipeline's folder when written there, else to the working folder; empty: none
    string_list,
    path_list,
};

// A number of bytes, or "auto" when empty.
struct Size {
    std::optional<uint64_t> bytes;
    bool operator==(const Size&) const = default;
};

// boolean, integer, real, size; string, choice and path; the lists.
using OptionValue = std::variant<bool, int64_t, double, Size, std::string, std::vector<std::string>>;

struct OptionSpec {
    std::string path = {};  // "kv.plugin"; of a plugin: below its own table
    OptionType type = OptionType::string;
    OptionValue default_value = std::string();
    double minimum = -std::numeric_limits<double>::infinity();  // integer and real; both ends are allowed
    double maximum = std::numeric_limits<double>::infinity();
    std::vector<std::string> choices = {};  // of a choice
    bool accepts_auto = false;              // sizes only
    std::string unit = {};                  // "tokens", "threads"; empty: a plain number
    std::string doc = {};                   // one line
    // One more rule: what is allowed instead, or nothing when the value is good.
    std::function<std::string(const OptionValue&)> check = {};
};

// "an integer from 16 to 8192 (tokens)"
std::string allowed_text(const OptionSpec& spec);

// Why the value breaks the spec's range, choices or check; empty when it does not.
std::string reject_reason(const OptionSpec& spec, const OptionValue& value);

// As TOML would write it; sizes in bytes.
std::string to_string(const OptionValue& value);

// "f16, f32"
std::string comma_list(const std::vector<std::string>& names);

class Schema {
public:
    // Declares the options of a table; an empty prefix means that paths are whole. Throws Error(plugin) on a name that
    // is no key, is there twice, or whose default breaks its own rule.
    void add(std::string_view prefix, std::vector<OptionSpec> specs);

    const OptionSpec* find(std::string_view key) const;
    // True when some key lies below the table.
    bool has_table(std::string_view table) const;
    // In the order of their declaration.
    const std::vector<std::string>& keys() const { return keys_; }
    // The keys directly in the table, "" for the top: the names that a message offers.
    std::vector<std::string> keys_in(std::string_view table) const;

private:
    std::map<std::string, OptionSpec, std::less<>> specs_;
    std::vector<std::string> keys_;
};

// The keys that the core itself knows.
const Schema& core_schema();

// "kv.plugin" is overridden by KVPLANE_KV_PLUGIN.
std::string environment_name(std::string_view key);

}  // namespace kvplane
