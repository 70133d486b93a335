// The options that snapkv and pyramidkv have in common.
#pragma once

#include <array>
#include <string_view>

#include "common/budget.h"
#include "common/prompt_eviction.h"

namespace kvplane::kv {

template <typename... More>
constexpr std::array<kvp_option, 6 + sizeof...(More)> snap_options(More... more) {
    return kvp::options(
        share_option(), tokens_option("2048"),
        kvp::option_i64("window", "32", 1, 65536, "last queries of the prompt, which vote, and newest rows that stay"),
        kvp::option_i64("kernel", "5", 1, 65535, "places that a vote is smoothed over, odd; 1: not smoothed"),
        kvp::option_choice("pooling", "mean", "mean|max", "how votes are smoothed"),
        kvp::option_i64("again", "0", 0, most_tokens,
                        "act once more whenever so many decoded rows are over the budget; 0: never, as published"),
        more...);
}

// All but the quota. Throws kvp::Failure(KVP_ERROR_INVALID) on values that do not go together.
inline PromptEvictionSettings read_snap_options(std::string_view name, const kvp::Host& host) {
    PromptEvictionSettings made;
    made.window = host.option_i64("window");
    made.kernel = static_cast<uint32_t>(host.option_i64("kernel"));
    made.pooling = host.option_str("pooling") == "max" ? uint32_t{KVP_POOL_MAX} : uint32_t{KVP_POOL_MEAN};
    made.again = host.option_i64("again");
    const std::string key = "kv." + std::string(name) + ".";
    if (made.kernel % 2 == 0) throw kvp::Failure(KVP_ERROR_INVALID, key + "kernel must be odd");
    if (made.again > 0 && made.again < made.window) {
        throw kvp::Failure(KVP_ERROR_INVALID, key + "again must be 0, or at least the window of " +
                                                  std::to_string(made.window) + " queries that vote");
    }
    made.summary = std::string(name) + ": " + Budget::read(host).text() + ", " + std::to_string(made.window) +
                   " queries vote, " + std::string(host.option_str("pooling")) + " over " +
                   std::to_string(made.kernel) + " places" +
                   (made.again > 0 ? ", again every " + std::to_string(made.again) + " tokens" : "");
    return made;
}

}  // namespace kvplane::kv
