#include "config/schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "config/size.h"

namespace kvplane {

namespace {

std::string number_text(double value) {
    constexpr double exact = 9007199254740992.0;  // 2^53: whole numbers are written as such, not as 1e+05
    if (std::abs(value) <= exact && value == std::trunc(value)) return std::to_string(static_cast<int64_t>(value));
    std::array<char, 64> text{};
    const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
    return std::string(text.data(), end);
}

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char character : text) {
        if (character == '"' || character == '\\') result += '\\';
        result += character;
    }
    return result + '"';
}

bool in_range(const OptionSpec& spec, double value) {
    return value >= spec.minimum && value <= spec.maximum;
}

bool holds_its_type(const OptionSpec& spec) {
    switch (spec.type) {
        case OptionType::boolean: return std::holds_alternative<bool>(spec.default_value);
        case OptionType::integer: return std::holds_alternative<int64_t>(spec.default_value);
        case OptionType::real: return std::holds_alternative<double>(spec.default_value);
        case OptionType::size: return std::holds_alternative<Size>(spec.default_value);
        case OptionType::string:
        case OptionType::choice:
        case OptionType::path: return std::holds_alternative<std::string>(spec.default_value);
        case OptionType::string_list:
        case OptionType::path_list: return std::holds_alternative<std::vector<std::string>>(spec.default_value);
    }
    return false;
}

bool is_key(std::string_view key) {
    return !key.empty() && !key.starts_with('.') && !key.ends_with('.') && key.find("..") == std::string_view::npos &&
           key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-.") == std::string_view::npos;
}

}  // namespace

std::string comma_list(const std::vector<std::string>& names) {
    std::string text;
    for (const auto& name : names) {
        if (!text.empty()) text += ", ";
        text += name;
    }
    return text;
}

std::string allowed_text(const OptionSpec& spec) {
    std::string text;
    switch (spec.type) {
        case OptionType::boolean: text = "true or false"; break;
        case OptionType::integer: text = "an integer"; break;
        case OptionType::real: text = "a number"; break;
        case OptionType::size: text = std::string(size_syntax()); break;
        case OptionType::string: text = "a string"; break;
        case OptionType::choice: text = "one of " + comma_list(spec.choices); break;
        case OptionType::path: text = "a path"; break;
        case OptionType::string_list: text = "a list of strings"; break;
        case OptionType::path_list: text = "a list of paths"; break;
    }
    if (spec.type == OptionType::integer || spec.type == OptionType::real) {
        if (std::isfinite(spec.minimum)) text += " from " + number_text(spec.minimum);
        if (std::isfinite(spec.maximum))
            text += (std::isfinite(spec.minimum) ? " to " : " up to ") + number_text(spec.maximum);
    }
    if (spec.accepts_auto) text += ", or \"auto\"";
    if (!spec.unit.empty()) text += " (" + spec.unit + ")";
    return text;
}

std::string reject_reason(const OptionSpec& spec, const OptionValue& value) {
    const auto* integer = std::get_if<int64_t>(&value);
    const auto* real = std::get_if<double>(&value);
    const auto* text = std::get_if<std::string>(&value);
    const auto* size = std::get_if<Size>(&value);
    const bool good = (integer == nullptr || in_range(spec, static_cast<double>(*integer))) &&
                      (real == nullptr || in_range(spec, *real)) &&  // false for NaN, too
                      (size == nullptr || size->bytes || spec.accepts_auto) &&
                      (spec.type != OptionType::choice ||
                       std::find(spec.choices.begin(), spec.choices.end(), *text) != spec.choices.end());
    if (!good) return allowed_text(spec);
    return spec.check ? spec.check(value) : std::string();
}

std::string to_string(const OptionValue& value) {
    struct Writer {
        std::string operator()(bool flag) const { return flag ? "true" : "false"; }
        std::string operator()(int64_t number) const { return std::to_string(number); }
        std::string operator()(double number) const {
            // TOML tells a float by its point or exponent.
            std::string text = number_text(number);
            return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
        }
        std::string operator()(const Size& size) const { return size.bytes ? std::to_string(*size.bytes) : "auto"; }
        std::string operator()(const std::string& text) const { return quoted(text); }
        std::string operator()(const std::vector<std::string>& list) const {
            std::vector<std::string> parts;
            for (const auto& item : list) parts.push_back(quoted(item));
            return comma_list(parts).insert(0, 1, '[').append("]");
        }
    };
    return std::visit(Writer(), value);
}

void Schema::add(std::string_view prefix, std::vector<OptionSpec> specs) {
    for (auto& spec : specs) {
        if (!prefix.empty()) spec.path = std::string(prefix) + "." + spec.path;
        const std::string key = spec.path;
        std::string fault;
        if (!is_key(key)) fault = "is not made of lower-case words, digits, '_', '-' and dots";
        if (specs_.contains(key)) fault = "is declared twice";
        if (!holds_its_type(spec)) fault = "has a default of another type";
        if (fault.empty() && !reject_reason(spec, spec.default_value).empty())
            fault = "has a default that it does not allow";
        if (!fault.empty())
            throw Error(ErrorKind::plugin,
                        "option '" + key + "' " + fault + "; this is a fault of whoever declares it");
        keys_.push_back(key);
        specs_.emplace(key, std::move(spec));
    }
}

const OptionSpec* Schema::find(std::string_view key) const {
    const auto found = specs_.find(key);
    return found == specs_.end() ? nullptr : &found->second;
}

bool Schema::has_table(std::string_view table) const {
    const std::string start = std::string(table) + ".";
    const auto found = specs_.lower_bound(start);
    return found != specs_.end() && found->first.starts_with(start);
}

std::vector<std::string> Schema::keys_in(std::string_view table) const {
    std::vector<std::string> found;
    for (const auto& key : keys_) {
        const auto dot = key.rfind('.');
        if ((dot == std::string::npos ? std::string_view() : std::string_view(key).substr(0, dot)) == table)
            found.push_back(key);
    }
    return found;
}

std::string environment_name(std::string_view key) {
    std::string name = "KVPLANE_";
    for (const char character : key) {
        if (character >= 'a' && character <= 'z') {
            name += static_cast<char>(character - 'a' + 'A');
        } else {
            name += character == '.' || character == '-' ? '_' : character;
        }
    }
    return name;
}

}  // namespace kvplane
