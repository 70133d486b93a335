// Logging: one named log a component, all of them on standard error. Results never go through here.
//
//     log("memory").debug("page ", page, " left tier ", tier);
//
// The parts are put together only when the level is on. On a hot path keep the reference that log() returns.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "observe/log_levels.h"

namespace kvplane {

// Safe to use from any thread.
class Log {
public:
    explicit Log(std::string component);
    ~Log();
    Log(const Log&) = delete;
    Log& operator=(const Log&) = delete;

    bool enabled(LogLevel level) const;
    void set_level(LogLevel level);
    void write(LogLevel level, std::string_view text);

    template <class... Parts>
    void trace(const Parts&... parts) {
        write_parts(LogLevel::trace, parts...);
    }
    template <class... Parts>
    void debug(const Parts&... parts) {
        write_parts(LogLevel::debug, parts...);
    }
    template <class... Parts>
    void info(const Parts&... parts) {
        write_parts(LogLevel::info, parts...);
    }
    template <class... Parts>
    void warn(const Parts&... parts) {
        write_parts(LogLevel::warn, parts...);
    }
    template <class... Parts>
    void error(const Parts&... parts) {
        write_parts(LogLevel::error, parts...);
    }

private:
    struct Backend;

    template <class... Parts>
    void write_parts(LogLevel level, const Parts&... parts) {
        if (!enabled(level)) return;
        std::ostringstream text;
        (text << ... << parts);
        write(level, text.str());
    }

    std::unique_ptr<Backend> backend_;
};

// The log of a component ("memory", "plugin.cpu"), made at its first use; the reference stays good for ever.
Log& log(std::string_view component);

// Sets the level of every log, those made later included.
void set_log_levels(const LogLevels& levels);

// For --no-color; without a call the terminal and its environment decide (observe/terminal.h).
void set_log_colour(bool colour);

}  // namespace kvplane
