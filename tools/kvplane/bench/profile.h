// The roofline of a cell, op by op: time, bytes and operations of each, against what memory and processor can do.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/compute_peak.h"
#include "engine/op_profile.h"

namespace kvplane::tool {

struct Ceilings {
    double read_limit = 0;  // bytes a second
    ComputePeak compute;
};

// `seconds`: of all steps that the profile saw, `tokens` what they made. "ops" is a list, the longest first; what is left
// of the time, between the ops, comes last.
nlohmann::ordered_json profile_report(const OpProfile& profile, double seconds, double tokens,
                                      const Ceilings& ceilings);

// As Markdown, under a title.
std::string profile_table(const std::string& title, const nlohmann::ordered_json& report);

}  // namespace kvplane::tool
