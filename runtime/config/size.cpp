#include "config/size.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "base/checked.h"

namespace kvplane {

namespace {

constexpr size_t max_decimals = 6;  // 10^6 parts of the largest unit (2^40) still fit 64 bits

std::optional<uint64_t> digits(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

// The bytes of one unit; empty when there is no such unit.
std::optional<uint64_t> unit_bytes(std::string_view unit) {
    if (unit.empty() || unit == "B") return 1;
    constexpr std::string_view lower = "kmgt";
    constexpr std::string_view upper = "KMGT";
    const bool is_lower = lower.find(unit[0]) != std::string_view::npos;
    const auto exponent = is_lower ? lower.find(unit[0]) : upper.find(unit[0]);
    if (exponent == std::string_view::npos) return std::nullopt;
    const std::string_view rest = unit.substr(1);
    uint64_t base = 0;
    if (rest.empty()) {
        base = is_lower ? 1000 : 1024;
    } else if (rest == "B") {
        base = 1000;
    } else if (rest == "iB") {
        base = 1024;
    } else {
        return std::nullopt;
    }
    uint64_t bytes = base;
    for (size_t i = 0; i < exponent; ++i) bytes *= base;
    return bytes;
}

}  // namespace

std::optional<uint64_t> parse_size(std::string_view text) {
    const auto number_end = text.find_first_not_of("0123456789.");
    std::string_view number = text.substr(0, number_end);
    std::string_view unit = number_end == std::string_view::npos ? "" : text.substr(number_end);
    if (unit.starts_with(' ')) unit.remove_prefix(1);
    const auto factor = unit_bytes(unit);
    if (!factor) return std::nullopt;

    const auto point = number.find('.');
    const auto whole = digits(number.substr(0, point));
    if (!whole) return std::nullopt;
    const auto whole_bytes = checked_multiply(*whole, *factor);
    if (!whole_bytes || point == std::string_view::npos) return whole_bytes;

    const std::string_view decimals = number.substr(point + 1);
    const auto fraction = digits(decimals);
    if (!fraction || decimals.size() > max_decimals) return std::nullopt;
    uint64_t scale = 1;
    for (size_t i = 0; i < decimals.size(); ++i) scale *= 10;
    return checked_add(*whole_bytes, *fraction * *factor / scale);
}

std::string_view size_syntax() noexcept {
    return "bytes, or a number with k m g t (1000), K M G T (1024), KB MB GB TB (1000) or KiB MiB GiB TiB (1024)";
}

std::string format_size(uint64_t bytes) {
    constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t step = 0;
    uint64_t unit = 1;
    while (step + 1 < units.size() && bytes / unit >= 1024) {
        unit *= 1024;
        ++step;
    }
    if (bytes % unit == 0) return std::to_string(bytes / unit) + " " + units[step];
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f %s", static_cast<double>(bytes) / static_cast<double>(unit),
                  units[step]);
    return text.data();
}

}  // namespace kvplane
