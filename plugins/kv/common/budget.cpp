#include "common/budget.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kvplane::kv {

int64_t Budget::rows(int64_t n_seen) const {
    if (share_ <= 0) return tokens_;
    // 0.1 of 30 is 3, whatever 0.1 is in binary.
    return std::max<int64_t>(1, static_cast<int64_t>(std::floor(share_ * static_cast<double>(n_seen) + 1e-9)));
}

std::string Budget::text() const {
    if (share_ <= 0) return std::to_string(tokens_) + " tokens";
    char text[32];
    std::snprintf(text, sizeof text, "%g %% of the tokens", 100 * share_);
    return text;
}

}  // namespace kvplane::kv
