// One line that says how far a long piece of work is: "load model  42 %  310 MiB/s  3 s left". It shows on a terminal alone,
// after a second, and leaves nothing behind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace kvplane {

// The line itself. The unit is a name ("tokens"), or "B" for bytes, written as KiB, MiB and so on. `total` of 0 means
// that nobody knows it: the amount stands for the percent.
std::string progress_text(std::string_view label, uint64_t done, uint64_t total, double seconds, std::string_view unit);

// Where a Progress draws and what time it is; tests give their own.
struct ProgressDisplay {
    bool enabled = false;
    std::function<double()> seconds;             // monotonic
    std::function<void(std::string_view)> show;  // replaces the line; empty takes it away

    static ProgressDisplay standard_error();
};

// Used from one thread at a time. It draws from within update(), never from a thread of its own.
class Progress {
public:
    Progress(std::string label, uint64_t total, std::string unit,
             ProgressDisplay display = ProgressDisplay::standard_error());
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void update(uint64_t done);
    void finish();

private:
    std::string label_;
    uint64_t total_;
    std::string unit_;
    ProgressDisplay display_;
    double started_ = 0.0;
    double next_draw_ = 0.0;
    bool visible_ = false;
};

}  // namespace kvplane
