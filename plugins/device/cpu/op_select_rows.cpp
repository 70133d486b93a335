// kvp.select_rows/1: how many rows a step reads, and which.
#include <algorithm>
#include <cmath>
#include <limits>

#include "float_order.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

// #{score - maximum > -alpha}, or >= where not strict.
int64_t count_near(const float* scores, int64_t n, float maximum, float alpha, bool strict) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
        const float distance = scores[i] - maximum;
        count += strict ? distance > -alpha : distance >= -alpha;
    }
    return count;
}

int64_t bounded(const kvp_select_rows_arguments& a, int64_t count) {
    const auto most = static_cast<int64_t>(std::floor(a.max_share * static_cast<float>(a.n_tokens)));
    count = std::min(std::max<int64_t>(count, a.min_count), most);
    return std::min<int64_t>(std::max<int64_t>(count, 1), a.max_count);
}

// The largest key that at least `count` keys reach; the bits of the threshold one by one, each by one scan.
int32_t threshold_of(const Kernels& kernels, const int32_t* keys, int64_t n, int64_t count) {
    uint32_t threshold = 0x80000000u;  // the least
    for (int bit = 31; bit >= 0; --bit) {
        const uint32_t raised = threshold + (1u << bit);
        if (kernels.count_at_least(keys, static_cast<int32_t>(raised), n) >= count) threshold = raised;
    }
    return static_cast<int32_t>(threshold);
}

void check(const kvp_select_rows_arguments& a) {
    if (a.scores == 0 || a.index == 0 || a.counts == 0) invalid("select_rows lacks an array");
    if (a.n_tokens < 0 || a.n_tokens >> 31 != 0 || static_cast<uint64_t>(a.n_tokens) > a.scores_stride) {
        invalid("select_rows counts more rows than it has scores");
    }
    if (a.skip_begin < 0 || a.skip_end < 0) invalid("select_rows cannot skip fewer than 0 rows");
    if (a.max_count > a.index_stride) invalid("select_rows has no room for max_count rows");
}

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(0);
    const auto& a = structure<kvp_select_rows_arguments>(pointer, "the argument struct of select_rows");
    check(a);
    const int64_t n_heads = a.n_kv_heads;
    const int64_t begin = std::min(a.skip_begin, a.n_tokens);
    const int64_t n = std::max<int64_t>(0, a.n_tokens - a.skip_end - begin);
    const Kernels& kernels = queue.device.kernels;
    int32_t* keys = queue.workspace.ints.get(n_heads * std::max<int64_t>(n, 1));
    std::vector<int64_t> counts(static_cast<size_t>(n_heads));
    const auto scores_of = [&](int64_t head) {
        return reinterpret_cast<const float*>(a.scores) + static_cast<uint64_t>(head) * a.scores_stride;
    };

    queue.device.pool.run(n_heads, [&](int64_t head, uint32_t) {
        const float* scores = scores_of(head);
        int64_t& count = counts[static_cast<size_t>(head)];
        if (a.fixed_share >= 0) {
            count = static_cast<int64_t>(std::floor(a.fixed_share * static_cast<float>(a.n_tokens)));
        } else {
            count = count_near(scores, a.n_tokens, kernels.maximum(scores, a.n_tokens), a.alpha,
                               (a.flags & KVP_SELECT_STRICT) != 0);
        }
        for (int64_t i = 0; i < n; ++i) keys[head * n + i] = order_key(scores[begin + i]);
    });
    if ((a.flags & KVP_SELECT_PER_HEAD) == 0) {
        int64_t total = 0;
        for (const int64_t count : counts) total += count;
        std::fill(counts.begin(), counts.end(), n_heads > 0 ? total / n_heads : 0);
    }
    queue.device.pool.run(n_heads, [&](int64_t head, uint32_t) {
        const int64_t count = std::min(bounded(a, counts[static_cast<size_t>(head)]), n);
        reinterpret_cast<int32_t*>(a.counts)[head] = static_cast<int32_t>(count);
        if (count == 0) return;
        const int32_t* own = keys + head * n;
        const int32_t threshold = threshold_of(kernels, own, n, count);
        int64_t ties =
            count -
            (threshold == std::numeric_limits<int32_t>::max() ? 0 : kernels.count_at_least(own, threshold + 1, n));
        int32_t* out = reinterpret_cast<int32_t*>(a.index) + static_cast<uint64_t>(head) * a.index_stride;
        for (int64_t i = 0; i < n; ++i) {
            if (own[i] < threshold || (own[i] == threshold && ties-- <= 0)) continue;
            *out++ = static_cast<int32_t>(begin + i);
        }
    });
}

}  // namespace

const Operation kSelectRows = plain_operation<run>("kvp.select_rows/1");

}  // namespace kvplane::cpu
