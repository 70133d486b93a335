// Which component logs how much, from one text: "info,memory=debug,plugin.cpu=trace".
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace kvplane {

enum class LogLevel : int { trace, debug, info, warn, error, off };

const char* to_string(LogLevel level) noexcept;

class LogLevels {
public:
    // The product's default: warnings and errors.
    LogLevels() = default;

    // A list with commas of LEVEL (for all) and COMPONENT=LEVEL; the last one wins. Throws Error(config) that names
    // the part, the levels there are and the nearest one.
    static LogLevels parse(std::string_view specification);

    // The level of the component or of its nearest parent ("plugin" rules "plugin.cpu"), else the one for all.
    LogLevel of(std::string_view component) const;

    // The level for all moved by `steps` towards trace (the program's -v, and -q with -1); components keep theirs.
    LogLevels more_verbose(int steps) const;

private:
    LogLevel all_ = LogLevel::warn;
    std::map<std::string, LogLevel, std::less<>> components_;
};

}  // namespace kvplane
