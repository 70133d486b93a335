#include "plugin/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "config/suggest.h"
#include "plugin/status.h"

namespace kvplane {

namespace {

constexpr uint32_t max_options = 1024;

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorKind::plugin, reason);
}

bool is_key(std::string_view text) {
    return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
}

// The whole text as a number; TOML writes a sign, "inf" and "nan" as from_chars reads them, but for "+".
template <class Number>
Number parse_number(const std::string& text, const std::string& what) {
    const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
    const char* const end = text.data() + text.size();
    Number value{};
    const auto result = std::from_chars(begin, end, value);
    if (result.ec != std::errc() || result.ptr != end)
        refuse(what + " has the default \"" + text + "\", no such number");
    return value;
}

std::vector<std::string> split_choices(const std::string& text) {
    std::vector<std::string> choices;
    size_t begin = 0;
    for (size_t bar = text.find('|'); bar != std::string::npos; bar = text.find('|', begin)) {
        choices.push_back(text.substr(begin, bar - begin));
        begin = bar + 1;
    }
    choices.push_back(text.substr(begin));
    return choices;
}

OptionSpec read_option(const kvp_option& option) {
    OptionSpec spec;
    spec.path = to_string(option.key);
    if (!is_key(spec.path)) refuse("declares an option whose key \"" + spec.path + "\" is not of a-z, 0-9 and '_'");
    const std::string what = "option \"" + spec.path + "\"";
    const std::string text = to_string(option.default_value);
    spec.doc = to_string(option.doc);
    // Zeroed limits are no limits: a range of one value is not worth an option.
    if (option.minimum != 0 || option.maximum != 0) {
        spec.minimum = option.minimum;
        spec.maximum = option.maximum;
    }
    if (!(spec.minimum <= spec.maximum)) refuse(what + " has a minimum above its maximum");

    switch (option.type) {
        case KVP_OPTION_BOOL:
            spec.type = OptionType::boolean;
            if (text != "true" && text != "false")
                refuse(what + " has the default \"" + text + "\", not true or false");
            spec.default_value = text == "true";
            break;
        case KVP_OPTION_I64:
            spec.type = OptionType::integer;
            spec.default_value = parse_number<int64_t>(text, what);
            break;
        case KVP_OPTION_F64:
            spec.type = OptionType::real;
            spec.default_value = parse_number<double>(text, what);
            break;
        case KVP_OPTION_STR:
            spec.type = OptionType::string;
            spec.default_value = text;
            if (option.choices.n_bytes != 0) {
                spec.type = OptionType::choice;
                spec.choices = split_choices(to_string(option.choices));
            }
            break;
        default: refuse(what + " has the unknown type " + std::to_string(option.type));
    }
    if (const std::string reason = reject_reason(spec, spec.default_value); !reason.empty()) {
        refuse(what + " has a default that breaks its own rule: " + reason);
    }
    return spec;
}

}  // namespace

std::vector<OptionSpec> read_options(const kvp_plugin_descriptor& descriptor) {
    if (descriptor.n_options > max_options) {
        refuse("declares " + std::to_string(descriptor.n_options) + " options, at most " + std::to_string(max_options) +
               " are allowed");
    }
    if (descriptor.n_options != 0 && descriptor.options == nullptr) refuse("declares options, but their table is NULL");
    std::vector<OptionSpec> specs;
    for (uint32_t i = 0; i < descriptor.n_options; ++i) {
        const kvp_option* const option = descriptor.options[i];
        if (!KVP_COVERS(kvp_option, option, doc))
            refuse("declares option " + std::to_string(i) + " as NULL or cut short");
        OptionSpec spec = read_option(*option);
        if (std::ranges::find(specs, spec.path, &OptionSpec::path) != specs.end()) {
            refuse("declares the option \"" + spec.path + "\" twice");
        }
        specs.push_back(std::move(spec));
    }
    return specs;
}

OptionValues merge_options(const std::vector<OptionSpec>& specs, const OptionValues& values) {
    OptionValues merged;
    std::vector<std::string> keys;
    for (const OptionSpec& spec : specs) {
        merged.emplace(spec.path, spec.default_value);
        keys.push_back(spec.path);
    }
    for (const auto& [key, value] : values) {
        const auto spec = std::ranges::find(specs, key, &OptionSpec::path);
        if (spec == specs.end()) {
            if (key == granted_threads_key && std::holds_alternative<int64_t>(value)) {
                merged.insert_or_assign(key, value);
                continue;
            }
            const std::string near = nearest(key, keys);
            refuse("has no option \"" + key + "\"" + (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
        }
        if (value.index() != spec->default_value.index()) {
            refuse("option \"" + key + "\" takes " + allowed_text(*spec) + ", not " + to_string(value));
        }
        if (const std::string reason = reject_reason(*spec, value); !reason.empty()) {
            refuse("option \"" + key + "\" cannot be " + to_string(value) + ": " + reason);
        }
        merged.insert_or_assign(key, value);
    }
    return merged;
}

OptionValues table_values(const Pipeline& pipeline, const std::string& table, const std::vector<OptionSpec>& specs) {
    OptionValues values;
    for (const OptionSpec& spec : specs) values.emplace(spec.path, pipeline.value(table + "." + spec.path));
    return values;
}

}  // namespace kvplane
