// How many rows a strategy may keep or read, said in the same two options by every strategy.
#pragma once

#include <cstdint>
#include <string>

#include "kvplane/sdk/host.hpp"
#include "kvplane/sdk/option.hpp"

namespace kvplane::kv {

constexpr double most_tokens = 1 << 30;

// kv.NAME.share and kv.NAME.tokens.
constexpr kvp_option share_option() {
    return kvp::option_f64("share", "0", 0, 1,
                           "share of the tokens seen that is kept or read, in place of tokens; 0: as tokens says");
}
constexpr kvp_option tokens_option(std::string_view default_value) {
    return kvp::option_i64("tokens", default_value, 1, most_tokens, "rows a KV head that are kept or read, at most");
}

class Budget {
public:
    Budget(double share, int64_t tokens) : share_(share), tokens_(tokens) {}
    static Budget read(const kvp::Host& host) { return {host.option_f64("share"), host.option_i64("tokens")}; }

    // Rows for a sequence that has seen n tokens: floor(share * n), at least 1.
    int64_t rows(int64_t n_seen) const;
    std::string text() const;

private:
    double share_;
    int64_t tokens_;
};

}  // namespace kvplane::kv
