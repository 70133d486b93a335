// kvp.select_rows/1: how many rows a step reads, and which: the best one by one, or in whole units.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "op.h"
#include "page_lists.h"

namespace kvplane::cpu {
namespace {

// Of all heads together: with fewer it is not worth to wake anybody, for selecting and for counting.
constexpr int64_t kParallelScores = 1 << 13;
constexpr int64_t kParallelCounts = 1 << 17;

int64_t bounded(const kvp_select_rows_arguments& a, int64_t count) {
    const auto most = static_cast<int64_t>(std::floor(a.max_share * static_cast<float>(a.n_tokens)));
    count = std::min(std::max<int64_t>(count, a.min_count), most);
    return std::min<int64_t>(std::max<int64_t>(count, 1), a.max_count);
}

// Entries [begin, end) of a KV head in units of `size`, cut at both ends. A unit never reaches over a listed page.
struct Units {
    int64_t size;
    int64_t begin;
    int64_t end;

    int64_t number() const { return (end - 1) / size - begin / size + 1; }
    int64_t first(int64_t unit) const { return std::max(begin, (begin / size + unit) * size); }
    int64_t last(int64_t unit) const { return std::min(end, (begin / size + unit + 1) * size); }
    int64_t rows(const int32_t* units, int64_t n) const {
        const int64_t missing_first = units[0] == 0 ? begin % size : 0;
        const int64_t missing_last = units[n - 1] == number() - 1 ? (size - end % size) % size : 0;
        return n * size - missing_first - missing_last;
    }
};

struct UnitScratch {
    UnitScratch(Workspace& workspace, int64_t n_entries, int64_t size, int64_t n_heads)
        : most_units(n_entries / size + 2),
          n_ints(select_scratch(most_units) + most_units),
          maxima(workspace.floats.get(n_heads * most_units)),
          ints(workspace.ints.get(n_heads * n_ints)) {}

    const int64_t most_units, n_ints;
    float* const maxima;
    int32_t* const ints;
};

// The best units that hold `count` rows, ascending, without the last where they would pass `room`: how many they are.
int64_t best_units(const Kernels& kernels, const Units& units, const float* maxima, int64_t count, int64_t room,
                   int32_t* scratch, int32_t* chosen) {
    const auto take = [&](int64_t n) {
        kernels.select_largest(maxima, units.number(), n, scratch, chosen);
        return units.rows(chosen, n);
    };
    int64_t n = (count + units.size - 1) / units.size;
    int64_t rows = take(n);
    while (rows < count) rows = take(++n);  // twice at most: only the units at the ends are cut
    if (rows > room && --n > 0) take(n);
    return n;
}

class SelectRows {
public:
    SelectRows(kvp_queue& queue, const kvp_select_rows_arguments& a, const PageLists& pages, int64_t unit)
        : queue_(queue), kernels_(queue.device.kernels), a_(a), pages_(pages), unit_(unit), n_heads_(a.n_kv_heads) {}

    void run() {
        count();
        if ((a_.flags & KVP_SELECT_SHARED) != 0) share_out();
        if (unit_ > 1) {
            choose_units();
        } else {
            choose_rows();
        }
    }

private:
    int32_t* counts() const { return reinterpret_cast<int32_t*>(a_.counts); }
    const float* scores(int64_t head) const {
        return reinterpret_cast<const float*>(a_.scores) + static_cast<uint64_t>(head) * a_.scores_stride;
    }
    int32_t* index(int64_t head) const {
        return reinterpret_cast<int32_t*>(a_.index) + static_cast<uint64_t>(head) * a_.index_stride;
    }

    template <typename Body>
    void for_each_head(int64_t least, const Body& body) const {
        if (pages_.most_entries() * n_heads_ >= least) {
            queue_.device.pool.run(n_heads_, [&](int64_t head, uint32_t) { body(head); });
        } else {
            for (int64_t head = 0; head < n_heads_; ++head) body(head);
        }
    }

    void count() const {
        const auto shared = static_cast<int32_t>(std::floor(a_.fixed_share * static_cast<float>(a_.n_tokens)));
        const bool strict = (a_.flags & KVP_SELECT_STRICT) != 0;
        for_each_head(kParallelCounts, [&](int64_t head) {
            counts()[head] =
                a_.fixed_share >= 0
                    ? shared
                    : static_cast<int32_t>(kernels_.count_near(scores(head), pages_.n_entries(head), a_.alpha, strict));
        });
        if ((a_.flags & KVP_SELECT_PER_HEAD) != 0 || n_heads_ == 0) return;
        const int64_t total = std::accumulate(counts(), counts() + n_heads_, int64_t{0});
        std::fill_n(counts(), n_heads_, static_cast<int32_t>(total / n_heads_));
    }

    // Entries that may be chosen.
    struct Entries {
        int64_t begin;
        int64_t end;
        int64_t n() const { return end - begin; }
    };
    Entries entries(int64_t head) const {
        const int64_t begin = pages_.entry_from(head, a_.skip_begin);
        const int64_t last = std::max<int64_t>(0, a_.n_tokens - a_.skip_end);
        return {begin, std::max(begin, pages_.entry_from(head, last))};
    }

    // A head's count becomes how many of the best rows of all heads together are its own.
    void share_out() {
        int64_t n = 0, total = 0;
        for (int64_t head = 0; head < n_heads_; ++head) {
            n += entries(head).n();
            total += bounded(a_, counts()[head]);
        }
        total = std::min(total, n);
        std::fill_n(counts(), n_heads_, 0);
        if (total == 0) return;
        float* all = queue_.workspace.floats.get(n);
        int32_t* scratch = queue_.workspace.ints.get(select_scratch(n) + total);
        int32_t* places = scratch + select_scratch(n);
        float* next = all;
        for (int64_t head = 0; head < n_heads_; ++head) {
            next = std::copy_n(scores(head) + entries(head).begin, entries(head).n(), next);
        }
        kernels_.select_largest(all, n, total, scratch, places);
        const int32_t* place = places;
        for (int64_t head = 0, end = 0; head < n_heads_; ++head) {
            end += entries(head).n();
            const int32_t* after = std::lower_bound<const int32_t*>(place, places + total, static_cast<int32_t>(end));
            counts()[head] = static_cast<int32_t>(std::min<int64_t>(after - place, a_.max_count));
            place = after;
        }
    }

    // Calls body(head, begin, end, count) where `count` of the entries [begin, end) are to be chosen; it says how many were.
    template <typename Body>
    void for_each_choice(const Body& body) const {
        const bool shared = (a_.flags & KVP_SELECT_SHARED) != 0;
        for_each_head(kParallelScores, [&](int64_t head) {
            const auto [begin, end] = entries(head);
            const int64_t count = shared ? counts()[head] : std::min(bounded(a_, counts()[head]), end - begin);
            counts()[head] = count == 0 ? 0 : static_cast<int32_t>(body(head, begin, end, count));
        });
    }

    void choose_rows() const {
        const int64_t scratch = select_scratch(pages_.most_entries());
        int32_t* scratches = queue_.workspace.ints.get(n_heads_ * scratch);
        for_each_choice([&](int64_t head, int64_t begin, int64_t end, int64_t count) {
            int32_t* out = index(head);
            kernels_.select_largest(scores(head) + begin, end - begin, count, scratches + head * scratch, out);
            for (int64_t i = 0; i < count; ++i) out[i] += static_cast<int32_t>(begin);
            pages_.to_rows(head, out, count);
            return count;
        });
    }

    void choose_units() const {
        const UnitScratch scratch(queue_.workspace, pages_.most_entries(), unit_, n_heads_);
        for_each_choice([&](int64_t head, int64_t begin, int64_t end, int64_t count) {
            const Units units{unit_, begin, end};
            float* maxima = scratch.maxima + head * scratch.most_units;
            kernels_.part_maxima(scores(head) + begin, end - begin, units.last(0) - begin, unit_, maxima);
            int32_t* chosen = scratch.ints + head * scratch.n_ints;
            const int64_t n =
                best_units(kernels_, units, maxima, count, a_.max_count, chosen + scratch.most_units, chosen);
            int32_t* out = index(head);
            for (int64_t i = 0; i < n; ++i) {
                const int64_t first = units.first(chosen[i]);
                const int64_t n_rows = units.last(chosen[i]) - first;
                std::iota(out, out + n_rows, static_cast<int32_t>(pages_.row(head, first)));
                out += n_rows;
            }
            return out - index(head);
        });
    }

    kvp_queue& queue_;
    const Kernels& kernels_;
    const kvp_select_rows_arguments& a_;
    const PageLists& pages_;
    const int64_t unit_;
    const int64_t n_heads_;
};

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(0);
    const auto& a = structure<kvp_select_rows_arguments>(pointer, "the argument struct of select_rows",
                                                         offsetof(kvp_select_rows_arguments, unit_tokens));
    if (a.scores == 0 || a.index == 0 || a.counts == 0) invalid("select_rows lacks an array");
    if (a.skip_begin < 0 || a.skip_end < 0) invalid("select_rows cannot skip fewer than 0 rows");
    if (a.max_count > a.index_stride) invalid("select_rows has no room for max_count rows");
    // Said so that a share which is no number is refused too.
    if (!(a.max_share >= 0 && a.max_share <= 1)) invalid("select_rows needs a max_share of 0 to 1");
    if (!(a.fixed_share <= 1)) invalid("select_rows needs a fixed_share of at most 1, or a negative one");
    const PageLists pages(a.pages, a.page_counts, a.pages_stride, a.page_tokens, a.n_kv_heads, a.n_tokens);
    if (static_cast<uint64_t>(pages.most_entries()) > a.scores_stride) {
        invalid("select_rows counts more rows than it has scores");
    }
    if ((a.flags & KVP_SELECT_PER_HEAD) != 0 && (a.flags & KVP_SELECT_SHARED) != 0) {
        invalid("select_rows counts for each head or for all together, not both");
    }
    const int64_t unit = KVP_COVERS(kvp_select_rows_arguments, &a, unit_tokens) ? a.unit_tokens : 1;
    if (unit > 1 && pages.listed() && a.page_tokens % unit != 0) {
        invalid("select_rows takes units of " + std::to_string(unit) + " rows, which do not fill pages of " +
                std::to_string(a.page_tokens));
    }
    SelectRows(queue, a, pages, unit).run();
}

}  // namespace

const Operation kSelectRows = plain_operation<run>("kvp.select_rows/1");

}  // namespace kvplane::cpu
