#include "observe/log_levels.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"

namespace kvplane {

namespace {

constexpr std::array level_names = {"trace", "debug", "info", "warn", "error", "off"};

std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<LogLevel> level_named(std::string_view name) {
    const auto found = std::find(level_names.begin(), level_names.end(), name);
    if (found == level_names.end()) return std::nullopt;
    return static_cast<LogLevel>(found - level_names.begin());
}

// Component names are what the runtime calls them: lower-case words with dots.
bool is_component(std::string_view name) {
    return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string_view::npos;
}

}  // namespace

const char* to_string(LogLevel level) noexcept {
    return level_names[static_cast<size_t>(level)];
}

LogLevels LogLevels::parse(std::string_view specification) {
    LogLevels levels;
    while (true) {
        const auto comma = specification.find(',');
        const std::string_view part = trimmed(specification.substr(0, comma));
        const auto equals = part.find('=');
        const std::string_view component = equals == std::string_view::npos ? "" : trimmed(part.substr(0, equals));
        const std::string_view name = equals == std::string_view::npos ? part : trimmed(part.substr(equals + 1));
        const auto level = level_named(name);
        if (!level || (equals != std::string_view::npos && !is_component(component))) {
            throw Error(ErrorKind::config, "log level '" + std::string(part) +
                                               "' is neither LEVEL nor COMPONENT=LEVEL, with a level of trace, debug, "
                                               "info, warn, error or off");
        }
        if (component.empty()) {
            levels.all_ = *level;
        } else {
            levels.components_.insert_or_assign(std::string(component), *level);
        }
        if (comma == std::string_view::npos) return levels;
        specification.remove_prefix(comma + 1);
    }
}

LogLevel LogLevels::of(std::string_view component) const {
    while (true) {
        const auto found = components_.find(component);
        if (found != components_.end()) return found->second;
        const auto dot = component.rfind('.');
        if (dot == std::string_view::npos) return all_;
        component = component.substr(0, dot);
    }
}

LogLevels LogLevels::more_verbose(int steps) const {
    LogLevels levels = *this;
    const int wanted = static_cast<int>(all_) - steps;
    levels.all_ =
        static_cast<LogLevel>(std::clamp(wanted, static_cast<int>(LogLevel::trace), static_cast<int>(LogLevel::off)));
    return levels;
}

}  // namespace kvplane
