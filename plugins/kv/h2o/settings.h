// What [kv.h2o] may say.
#pragma once

#include <array>
#include <string>

#include "common/budget.h"
#include "kvplane/kv.h"

namespace kvplane::h2o {

// Rows of a layer that stay: the heavy ones, and the newest whatever they got.
struct Quota {
    int64_t heavy;
    int64_t recent;
    int64_t total() const { return heavy + recent; }
};

struct Settings {
    kv::Budget budget;
    double recent_share;  // of the budget
    int64_t interval;     // rows leave when so many are over the budget
    bool normalize;       // sums are divided by the number of queries that a row was seen by
    bool flexgen;         // FlexGen's port: sizes are those of the prompt for good

    static Settings read(const kvp::Host& host);

    Quota after_prompt(int64_t n_prompt) const;
    // n_prompt: tokens of the prompt, for FlexGen's port.
    Quota after_token(int64_t n_seen, int64_t n_prompt) const;
    std::string summary() const;
};

extern const std::array<const kvp_option*, 6>& options;

}  // namespace kvplane::h2o
