#include "config/convert.h"

#include <charconv>

#include "config/size.h"
#include "config/suggest.h"

namespace kvplane {

namespace {

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<OptionValue> boolean(const RawValue& raw) {
    if (raw.kind == RawKind::boolean) return raw.boolean;
    if (raw.kind == RawKind::plain_text && raw.text == "true") return true;
    if (raw.kind == RawKind::plain_text && raw.text == "false") return false;
    return std::nullopt;
}

std::optional<OptionValue> integer(const RawValue& raw) {
    if (raw.kind == RawKind::integer) return raw.integer;
    if (raw.kind == RawKind::plain_text) return parse_number<int64_t>(raw.text);
    return std::nullopt;
}

std::optional<OptionValue> real(const RawValue& raw) {
    if (raw.kind == RawKind::real) return raw.real;
    if (raw.kind == RawKind::integer) return static_cast<double>(raw.integer);
    if (raw.kind == RawKind::plain_text) return parse_number<double>(raw.text);
    return std::nullopt;
}

std::optional<OptionValue> size(const RawValue& raw) {
    if (raw.kind == RawKind::integer && raw.integer >= 0) return Size{static_cast<uint64_t>(raw.integer)};
    if (raw.kind != RawKind::string && raw.kind != RawKind::plain_text) return std::nullopt;
    if (raw.text == "auto") return Size{};  // whether it is allowed is the spec's rule
    const auto bytes = parse_size(raw.text);
    if (!bytes) return std::nullopt;
    return Size{bytes};
}

std::optional<OptionValue> text(const RawValue& raw) {
    if (raw.kind == RawKind::string || raw.kind == RawKind::plain_text) return raw.text;
    return std::nullopt;
}

// Plain text is split at commas; an empty one is an empty list.
std::optional<OptionValue> list(const RawValue& raw) {
    std::vector<std::string> items;
    if (raw.kind == RawKind::list) {
        for (const auto& item : raw.list) {
            if (item.kind != RawKind::string) return std::nullopt;
            items.push_back(item.text);
        }
        return items;
    }
    if (raw.kind != RawKind::plain_text) return std::nullopt;
    std::string_view rest = raw.text;
    while (!rest.empty()) {
        const auto comma = rest.find(',');
        items.emplace_back(rest.substr(0, comma));
        rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
    return items;
}

std::string resolved(const std::string& path, const std::filesystem::path& base) {
    return path.empty() ? path : (base / path).lexically_normal().string();
}

std::optional<OptionValue> typed(OptionType type, const RawValue& raw) {
    switch (type) {
        case OptionType::boolean: return boolean(raw);
        case OptionType::integer: return integer(raw);
        case OptionType::real: return real(raw);
        case OptionType::size: return size(raw);
        case OptionType::string:
        case OptionType::choice:
        case OptionType::path: return text(raw);
        case OptionType::string_list:
        case OptionType::path_list: return list(raw);
    }
    return std::nullopt;
}

}  // namespace

std::string to_string(const RawValue& raw) {
    switch (raw.kind) {
        case RawKind::boolean: return to_string(OptionValue(raw.boolean));
        case RawKind::integer: return to_string(OptionValue(raw.integer));
        case RawKind::real: return to_string(OptionValue(raw.real));
        case RawKind::string:
        case RawKind::plain_text: return to_string(OptionValue(raw.text));
        case RawKind::list: {
            std::vector<std::string> items;
            for (const auto& item : raw.list) items.push_back(to_string(item));
            return comma_list(items).insert(0, 1, '[').append("]");
        }
        case RawKind::table: return "a table";
        case RawKind::date_or_time: return "a date or time";
    }
    return "a value";
}

std::optional<OptionValue> convert(const OptionSpec& spec, const RawEntry& entry, const std::filesystem::path& base,
                                   Problems& problems) {
    auto value = typed(spec.type, entry.value);
    const std::string allowed = value ? reject_reason(spec, *value) : allowed_text(spec);
    if (!allowed.empty()) {
        const bool is_choice = spec.type == OptionType::choice && value;
        problems.add({entry.value_place, spec.path + " cannot be " + to_string(entry.value), allowed,
                      is_choice ? nearest(entry.value.text, spec.choices) : ""});
        return std::nullopt;
    }
    if (spec.type == OptionType::path) {
        auto& path = std::get<std::string>(*value);
        path = resolved(path, base);
    } else if (spec.type == OptionType::path_list) {
        for (auto& path : std::get<std::vector<std::string>>(*value)) path = resolved(path, base);
    }
    return value;
}

}  // namespace kvplane
