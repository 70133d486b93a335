#include "settings.h"

#include <algorithm>

namespace kvplane::quest {

namespace {

constexpr auto table = kvp::options(
    kv::share_option(), kv::tokens_option("2048"),
    kvp::option_i64("page_tokens", "16", 1, 65536, "rows of a page that is read or not; divides memory.page_tokens"),
    kvp::option_i64("min_pages", "3", 1, kv::most_tokens, "fewest pages read, the newest one counted"),
    kvp::option_i64("dense_layers", "2", 0, 65536, "first layers, which attend to everything"),
    kvp::option_choice("group", "best", "best|max|mean",
                       "score of a page over the query heads that share it; best: closest to its head's best page"));
constexpr auto pointers = kvp::pointers(table);

std::string name_of(Group group) {
    return group == Group::best ? "best" : group == Group::max ? "max" : "mean";
}

}  // namespace

const std::array<const kvp_option*, 6>& options = pointers;

Settings Settings::read(const kvp::Host& host, const kvp_kv_model& model) {
    const int64_t page_tokens = host.option_i64("page_tokens");
    if (model.page_tokens % page_tokens != 0) {
        throw kvp::Failure(KVP_ERROR_INVALID,
                           "kv.quest.page_tokens = " + std::to_string(page_tokens) +
                               " does not divide memory.page_tokens = " + std::to_string(model.page_tokens));
    }
    const std::string_view group = host.option_str("group");
    return {kv::Budget::read(host), static_cast<uint32_t>(page_tokens),
            static_cast<uint32_t>(std::min<int64_t>(host.option_i64("dense_layers"), model.n_layers)),
            static_cast<uint32_t>(host.option_i64("min_pages")),
            group == "best"  ? Group::best
            : group == "max" ? Group::max
                             : Group::mean};
}

int64_t Settings::pages_read(int64_t n_past) const {
    return std::max<int64_t>(min_pages, budget.rows(n_past) / page_tokens);
}

std::string Settings::summary() const {
    return "quest: pages of " + std::to_string(page_tokens) + " by their bounds, " + budget.text() + ", at least " +
           std::to_string(min_pages) + " pages, " + name_of(group) + " of a group's heads, first " +
           std::to_string(dense_layers) + " layers dense";
}

}  // namespace kvplane::quest
