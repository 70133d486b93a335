#include "observe/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>

#include "observe/terminal.h"

namespace kvplane {

namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
    constexpr std::array levels = {spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
                                   spdlog::level::warn,  spdlog::level::err,   spdlog::level::off};
    return levels[static_cast<size_t>(level)];
}

// spdlog's own stderr sinks know nothing of the status line, and decide about colour by a list of terminal names.
class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
public:
    StderrSink() : colour_(stderr_takes_colour()) { set_pattern("[%H:%M:%S.%e] [%^%l%$] [%n] %v"); }

    void set_colour(bool colour) { colour_ = colour; }

protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t buffer;
        formatter_->format(message, buffer);
        const std::string_view line(buffer.data(), buffer.size());
        if (!colour_ || message.color_range_end <= message.color_range_start) return write_stderr(line);
        const std::string_view colour = message.level >= spdlog::level::err    ? "\x1b[31m"
                                        : message.level == spdlog::level::warn ? "\x1b[33m"
                                                                               : "\x1b[36m";
        std::string text(line.substr(0, message.color_range_start));
        text.append(colour);
        text.append(line.substr(message.color_range_start, message.color_range_end - message.color_range_start));
        text.append("\x1b[0m").append(line.substr(message.color_range_end));
        write_stderr(text);
    }
    void flush_() override {}

private:
    std::atomic<bool> colour_;
};

struct Registry {
    std::mutex mutex;
    LogLevels levels;
    std::map<std::string, std::unique_ptr<Log>, std::less<>> logs;
};

// Never destroyed, as the screen below it: static destructors may log.
Registry& registry() {
    static auto* instance = new Registry;
    return *instance;
}

const std::shared_ptr<StderrSink>& sink() {
    static auto* instance = new std::shared_ptr<StderrSink>(std::make_shared<StderrSink>());
    return *instance;
}

}  // namespace

struct Log::Backend {
    explicit Backend(std::string component) : logger(std::move(component), sink()) {}
    spdlog::logger logger;
};

Log::Log(std::string component) : backend_(std::make_unique<Backend>(std::move(component))) {}
Log::~Log() = default;

bool Log::enabled(LogLevel level) const {
    return backend_->logger.should_log(to_spdlog(level));
}
void Log::set_level(LogLevel level) {
    backend_->logger.set_level(to_spdlog(level));
}

void Log::write(LogLevel level, std::string_view text) {
    const std::string safe = printable(text);
    backend_->logger.log(to_spdlog(level), spdlog::string_view_t(safe.data(), safe.size()));
}

Log& log(std::string_view component) {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    auto found = all.logs.find(component);
    if (found == all.logs.end()) {
        auto made = std::make_unique<Log>(std::string(component));
        made->set_level(all.levels.of(component));
        found = all.logs.emplace(component, std::move(made)).first;
    }
    return *found->second;
}

void set_log_levels(const LogLevels& levels) {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    all.levels = levels;
    for (auto& [component, entry] : all.logs) entry->set_level(levels.of(component));
}

void set_log_colour(bool colour) {
    sink()->set_colour(colour);
}

}  // namespace kvplane
