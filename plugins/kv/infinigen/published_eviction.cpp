#include "published_eviction.h"

#include <algorithm>

namespace kvplane::infinigen {

namespace {

// The evaluator's counters are never halved.
PoolSettings without_halving(PoolSettings settings) {
    settings.counter_bits = 31;
    return settings;
}

}  // namespace

PublishedEviction::PublishedEviction(const PoolSettings& settings, int64_t n_always, uint32_t n_kv_heads)
    : limit_(static_cast<int64_t>(settings.tokens)),
      n_always_(n_always),
      uses_(without_halving(settings), n_kv_heads),
      masked_(n_kv_heads) {}

void PublishedEviction::append(int64_t n_cached, int64_t n_rows) {
    uses_.append(n_cached, n_rows);
    for (auto& rows : masked_) std::erase_if(rows, [&](int32_t row) { return row >= n_cached; });
}

void PublishedEviction::use(const int32_t* index, const int32_t* counts, uint64_t stride) {
    uses_.use(index, counts, stride, n_always_);
    const int64_t newest = uses_.n_rows() - 1;
    if (newest < limit_) return;
    std::vector<int32_t> victims(masked_.size());
    if (!uses_.choose(n_always_, newest / 2, 1, victims.data())) return;
    for (size_t head = 0; head < masked_.size(); head++) {
        auto& rows = masked_[head];
        if (std::find(rows.begin(), rows.end(), victims[head]) == rows.end()) rows.push_back(victims[head]);
    }
}

}  // namespace kvplane::infinigen
