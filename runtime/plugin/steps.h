// Records the steps of a load and turns the first failure into the one line that people get. Inside of runtime/plugin.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "plugin/plugin.h"

namespace kvplane {

// Runs one step, which throws its reason. `subject` opens the message: plugin "window" (/usr/lib/kvplane/window.so)
template <class Body>
void run_step(std::vector<LoadStep>& steps, const char* name, const std::string& subject, Body&& body) {
    const auto begin = std::chrono::steady_clock::now();
    LoadStep& step = steps.emplace_back();
    step.name = name;
    try {
        body();
        step.ok = true;
    } catch (const std::exception& error) {
        step.reason = error.what();
    }
    step.ns = static_cast<uint64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
    if (!step.ok) throw LoadError(subject + ": " + name + ": " + step.reason, steps);
}

}  // namespace kvplane
