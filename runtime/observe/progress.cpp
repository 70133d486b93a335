#include "observe/progress.h"

#include <array>
#include <chrono>
#include <cstdio>

#include "observe/terminal.h"

namespace kvplane {

namespace {

constexpr double silence_seconds = 1.0;  // work that is done sooner needs no line
constexpr double redraw_seconds = 0.1;

std::string number(const char* format, double value) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), format, value);
    return text.data();
}

std::string amount(double value, std::string_view unit) {
    if (unit != "B") return number(value < 10.0 ? "%.1f " : "%.0f ", value).append(unit);
    constexpr std::array names = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t step = 0;
    for (; value >= 1024.0 && step + 1 < names.size(); ++step) value /= 1024.0;
    return number(step == 0 || value >= 100.0 ? "%.0f " : "%.1f ", value) + names[step];
}

// Two places are enough for a guess.
std::string time_text(double seconds) {
    if (seconds < 60.0) return number("%.0f s", seconds);
    if (seconds < 3600.0) return number("%.0f min", seconds / 60.0);
    return number("%.1f h", seconds / 3600.0);
}

}  // namespace

std::string progress_text(std::string_view label, uint64_t done, uint64_t total, double seconds,
                          std::string_view unit) {
    std::string text(label);
    if (total > 0) {
        text += number("  %3.0f %%", 100.0 * static_cast<double>(done) / static_cast<double>(total));
    } else {
        text += "  " + amount(static_cast<double>(done), unit);
    }
    if (seconds > 0.0) text += "  " + amount(static_cast<double>(done) / seconds, unit) + "/s";
    if (seconds > 0.0 && done > 0 && done < total) {
        text += "  " + time_text(seconds * static_cast<double>(total - done) / static_cast<double>(done)) + " left";
    }
    return text;
}

ProgressDisplay ProgressDisplay::standard_error() {
    ProgressDisplay display;
    display.enabled = stderr_is_terminal();
    display.seconds = [] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    display.show = show_status;
    return display;
}

Progress::Progress(std::string label, uint64_t total, std::string unit, ProgressDisplay display)
    : label_(std::move(label)), total_(total), unit_(std::move(unit)), display_(std::move(display)) {
    if (!display_.enabled) return;
    started_ = display_.seconds();
    next_draw_ = started_ + silence_seconds;
}

Progress::~Progress() {
    finish();
}

void Progress::update(uint64_t done) {
    if (!display_.enabled) return;
    const double now = display_.seconds();
    if (now < next_draw_) return;
    next_draw_ = now + redraw_seconds;
    visible_ = true;
    display_.show(progress_text(label_, done, total_, now - started_, unit_));
}

void Progress::finish() {
    if (visible_) display_.show("");
    visible_ = false;
}

}  // namespace kvplane
