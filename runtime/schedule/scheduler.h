// What the next step computes: a row of every sequence that decodes, then chunks of prompts with the rows that are
// left.
#pragma once

#include <span>
#include <utility>

#include "schedule/step.h"

namespace kvplane {

struct SchedulerLimits {
    int64_t max_rows;      // of a step
    int64_t max_new_rows;  // that the tiers can take in one step
    int64_t page_tokens;   // chunks that are not the last end at a page's border
    int64_t max_prompts;   // that a step may read from: each may need a page more than its rows fill
};

// `sequences`: a running text and the caller's number for it. An empty step: nothing is left to do.
// `used`: an old step, whose memory the new one takes over.
Step next_step(std::span<const std::pair<RunningText*, uint64_t>> sequences, const SchedulerLimits& limits,
               Step used = {});

}  // namespace kvplane
