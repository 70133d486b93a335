// What [kv.window] may say, and which tokens that makes visible.
#pragma once

#include <array>
#include <string>

#include "common/budget.h"
#include "kvplane/kv.h"

namespace kvplane::window {

struct Settings {
    kv::Budget budget;
    int64_t sinks;
    bool cache_positions;  // StreamingLLM: positions are places in the cache, so sinks come nearer as tokens leave
    bool whole_prompt;     // a prompt's rows see all of it

    static Settings read(const kvp::Host& host);

    // The first token behind the sinks that token n sees: n - recent, never less than the sinks.
    int64_t window_begin(int64_t n_seen) const;
    std::string summary() const;
};

extern const std::array<const kvp_option*, 5>& options;

}  // namespace kvplane::window
