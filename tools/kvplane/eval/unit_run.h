// The work of an evaluation in units: what is known from an earlier run is taken from there, the rest is computed and
// kept, contender after contender.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "eval/matrix.h"
#include "eval/results.h"

namespace kvplane::tool {

struct Unit {
    std::string key;               // what the result depends on, beside the contender
    nlohmann::ordered_json about;  // for people who read the file of results
    uint64_t tokens;               // that it computes, for the time left
};

// Computes the unit of this number on an engine; goes before the engine does.
using Worker = std::function<nlohmann::json(size_t unit)>;

struct ContenderResults {
    std::string strategy, settings;
    std::vector<nlohmann::json> units;  // in the order of the units
    double seconds = 0;                 // that they took, in whatever run
};

// The same units for every contender. Nothing: a signal ended it, and what was done is in `results`. A worker is made for
// each engine that is opened; it gives up where the engine's should_stop says so.
std::optional<std::vector<ContenderResults>> run_units(Matrix& matrix, Results& results, const EngineLimits& limits,
                                                       const std::vector<Unit>& units,
                                                       const std::function<Worker(Engine&)>& make_worker);

}  // namespace kvplane::tool
