#include "schedule/scheduler.h"

#include <algorithm>
#include <utility>

namespace kvplane {

namespace {

void add_part(Step& step, RunningText& text, uint64_t user, int64_t n_rows, bool prefill) {
    const int64_t first = text.n_computed;
    const bool last = prefill && !text.prompt_goes_on && first + n_rows == text.prompt_tokens;
    step.parts.push_back({&text, user, step.n_rows(), n_rows, prefill, last});
    for (int64_t i = first; i < first + n_rows; ++i) {
        step.tokens.push_back(text.tokens[static_cast<size_t>(i)]);
        step.positions.push_back(static_cast<int32_t>(i));
    }
}

}  // namespace

Step next_step(std::span<const std::pair<RunningText*, uint64_t>> sequences, const SchedulerLimits& limits, Step used) {
    Step step = std::move(used);
    step.parts.clear();
    step.tokens.clear();
    step.positions.clear();
    const int64_t room = std::min(limits.max_rows, limits.max_new_rows);
    for (const auto& [text, user] : sequences) {
        const bool waits = text->n_computed < static_cast<int64_t>(text->tokens.size());
        if (text->finished || text->in_prefill() || !waits || step.n_rows() >= room) continue;
        add_part(step, *text, user, 1, false);
    }
    int64_t n_prompts = 0;
    for (const auto& [text, user] : sequences) {
        const int64_t left = room - step.n_rows();
        if (text->finished || !text->in_prefill() || left <= 0 || n_prompts == limits.max_prompts) continue;
        ++n_prompts;
        int64_t n_rows = std::min(left, text->prompt_tokens - text->n_computed);
        const int64_t border = (text->n_computed + n_rows) / limits.page_tokens * limits.page_tokens;
        const bool is_last = text->n_computed + n_rows == text->prompt_tokens;
        if (!is_last && border > text->n_computed) n_rows = border - text->n_computed;
        add_part(step, *text, user, n_rows, true);
    }
    return step;
}

}  // namespace kvplane
