// One step: rows of several sequences, one after the other, that go through the model together. It is ragged from the
// first day: a part may be one row of a decode or a chunk of a prompt.
#pragma once

#include <cstdint>
#include <vector>

namespace kvplane {

// What the scheduler knows of a running text.
struct RunningText {
    std::vector<int32_t> tokens;  // the prompt and what followed
    int64_t prompt_tokens = 0;
    bool prompt_goes_on = false;  // more of the prompt will be given: its end has not come yet
    int64_t n_computed = 0;       // tokens whose K and V are in the cache
    bool finished = false;

    bool in_prefill() const { return n_computed < prompt_tokens; }
};

struct StepPart {
    RunningText* text;
    uint64_t user;  // the caller's
    int64_t row_begin;
    int64_t n_rows;
    bool prefill;
    bool last_chunk;  // the prompt ends with this part
};

struct Step {
    std::vector<StepPart> parts;
    std::vector<int32_t> tokens;
    std::vector<int32_t> positions;

    int64_t n_rows() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace kvplane
