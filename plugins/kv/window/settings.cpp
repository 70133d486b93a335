#include "settings.h"

#include <algorithm>

namespace kvplane::window {

namespace {

constexpr auto table = kvp::options(
    kv::share_option(), kv::tokens_option("1024"),
    kvp::option_i64("sinks", "4", 0, kv::most_tokens, "first tokens, which never leave; part of the budget"),
    kvp::option_choice("positions", "true", "true|cache",
                       "true: tokens keep their positions; cache: StreamingLLM, positions are places in the cache"),
    kvp::option_choice("prompt", "full", "full|window",
                       "full: a prompt is read in full, rows leave behind it; window: they leave from chunk to chunk"));
constexpr auto pointers = kvp::pointers(table);

}  // namespace

const std::array<const kvp_option*, 5>& options = pointers;

Settings Settings::read(const kvp::Host& host) {
    return {kv::Budget::read(host), host.option_i64("sinks"), host.option_str("positions") == "cache",
            host.option_str("prompt") == "full"};
}

int64_t Settings::window_begin(int64_t n_seen) const {
    const int64_t recent = std::max<int64_t>(1, budget.rows(n_seen) - sinks);
    return std::max(sinks, n_seen - recent);
}

std::string Settings::summary() const {
    return "window: " + budget.text() + ", " + std::to_string(sinks) + " of them sinks, " +
           (cache_positions ? "positions in the cache" : "true positions") +
           (whole_prompt ? ", prompts in full" : ", prompts by chunks");
}

}  // namespace kvplane::window
