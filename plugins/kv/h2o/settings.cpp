#include "settings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kvplane::h2o {

namespace {

constexpr auto table = kvp::options(
    kv::share_option(), kv::tokens_option("2048"),
    kvp::option_f64("recent_share", "0.5", 0, 1, "share of the budget that is for the newest rows"),
    kvp::option_i64("interval", "16", 1, 65536, "rows leave when so many are over the budget; 1: with every token"),
    kvp::option_choice("normalize", "none", "none|count",
                       "count: sums are divided by how many queries have seen the row"),
    kvp::option_choice("form", "drop", "drop|flexgen",
                       "drop: the budget follows the text; flexgen: it is that of the prompt, rows leave one by one"));
constexpr auto pointers = kvp::pointers(table);

}  // namespace

const std::array<const kvp_option*, 6>& options = pointers;

Settings Settings::read(const kvp::Host& host) {
    Settings made{kv::Budget::read(host), host.option_f64("recent_share"), host.option_i64("interval"),
                  host.option_str("normalize") == "count", host.option_str("form") == "flexgen"};
    if (made.flexgen) made.interval = 1;
    return made;
}

Quota Settings::after_prompt(int64_t n_prompt) const {
    const int64_t rows = budget.rows(n_prompt);
    if (flexgen) {  // hh of the prompt are heavy, and the hh - 1 newest stay beside them
        const int64_t hh = std::max<int64_t>(1, rows / 2);
        return {hh, hh - 1};
    }
    const auto recent = static_cast<int64_t>(std::floor(recent_share * static_cast<double>(rows)));
    const int64_t kept = std::clamp<int64_t>(recent, 1, rows);  // the newest always stays
    return {rows - kept, kept};
}

Quota Settings::after_token(int64_t n_seen, int64_t n_prompt) const {
    if (!flexgen) return after_prompt(n_seen);
    const Quota prompt = after_prompt(n_prompt);
    return {prompt.heavy - 1, prompt.recent + 1};  // the one that leaves is not among the hh newest
}

std::string Settings::summary() const {
    char share[32];
    std::snprintf(share, sizeof share, "%g", 100 * recent_share);
    if (flexgen) return "h2o: FlexGen's form, " + budget.text() + " of the prompt" + (normalize ? ", normalised" : "");
    return "h2o: " + budget.text() + ", " + share + " % of them the newest, rows leave by " + std::to_string(interval) +
           (normalize ? ", sums over counts" : "");
}

}  // namespace kvplane::h2o
