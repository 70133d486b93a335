#include "pool.h"

#include <algorithm>
#include <numeric>

namespace kvplane::infinigen {

Pool::Pool(const PoolSettings& settings, uint32_t n_kv_heads)
    : policy_(settings.policy), full_count_((1u << settings.counter_bits) - 1), heads_(n_kv_heads) {}

void Pool::append(int64_t n_cached, int64_t n_rows) {
    for (Rows& rows : heads_) {
        rows.resize(static_cast<size_t>(n_cached), Row{});
        for (int64_t i = 0; i < n_rows; i++) {
            const uint64_t time = clock_ + static_cast<uint64_t>(i) + 1;
            rows.push_back({time, time, 0});
        }
    }
    clock_ += static_cast<uint64_t>(n_rows);
}

void Pool::use(const int32_t* index, const int32_t* counts, uint64_t stride, int64_t n_always) {
    clock_++;
    for (size_t head = 0; head < heads_.size(); head++) {
        Rows& rows = heads_[head];
        bool full = false;
        const auto touch = [&](size_t row) {
            if (row >= rows.size()) return;  // rewound since
            rows[row].last_used = clock_;
            rows[row].uses = std::min(rows[row].uses + 1, full_count_);
            full |= rows[row].uses == full_count_;
        };
        for (int64_t row = 0; row < n_always; row++) touch(static_cast<size_t>(row));
        for (int32_t i = 0; i < counts[head]; i++) {
            touch(static_cast<size_t>(index[head * stride + static_cast<uint64_t>(i)]));
        }
        if (full) {
            for (Row& row : rows) row.uses /= 2;
        }
    }
}

bool Pool::leaves_before(const Row& a, const Row& b) const {
    if (policy_ == PoolPolicy::lru && a.last_used != b.last_used) return a.last_used < b.last_used;
    if (policy_ == PoolPolicy::counter && a.uses != b.uses) return a.uses < b.uses;
    return a.inserted < b.inserted;
}

bool Pool::choose(int64_t begin, int64_t end, uint32_t n_victims, int32_t* victims) const {
    if (begin < 0 || end > n_rows() || end - begin < static_cast<int64_t>(n_victims)) return false;
    std::vector<int32_t> candidates(static_cast<size_t>(end - begin));
    for (const Rows& rows : heads_) {
        std::iota(candidates.begin(), candidates.end(), static_cast<int32_t>(begin));
        const auto chosen = candidates.begin() + n_victims;
        std::nth_element(candidates.begin(), chosen, candidates.end(), [&](int32_t a, int32_t b) {
            return leaves_before(rows[static_cast<size_t>(a)], rows[static_cast<size_t>(b)]);
        });
        std::sort(candidates.begin(), chosen);
        victims = std::copy(candidates.begin(), chosen, victims);
    }
    return true;
}

void Pool::replace(int64_t end, uint32_t n_victims, const int32_t* victims) {
    for (Rows& rows : heads_) {
        const auto moved = rows.begin() + end;
        for (uint32_t i = 0; i < n_victims; i++) rows[static_cast<size_t>(*victims++)] = moved[i];
        rows.erase(moved, moved + n_victims);
    }
}

}  // namespace kvplane::infinigen
