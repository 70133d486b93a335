// kvp.select_rows/1: how many rows a step reads, and which.
#include <algorithm>
#include <cmath>
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

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(0);
    const auto& a = structure<kvp_select_rows_arguments>(pointer, "the argument struct of select_rows");
    if (a.scores == 0 || a.index == 0 || a.counts == 0) invalid("select_rows lacks an array");
    if (a.skip_begin < 0 || a.skip_end < 0) invalid("select_rows cannot skip fewer than 0 rows");
    if (a.max_count > a.index_stride) invalid("select_rows has no room for max_count rows");
    const PageLists pages(a.pages, a.page_counts, a.pages_stride, a.page_tokens, a.n_kv_heads, a.n_tokens);
    const int64_t n = pages.most_entries();
    if (static_cast<uint64_t>(n) > a.scores_stride) invalid("select_rows counts more rows than it has scores");

    const int64_t n_heads = a.n_kv_heads;
    const Kernels& kernels = queue.device.kernels;
    const int64_t scratch = select_scratch(n);
    int32_t* scratches = queue.workspace.ints.get(n_heads * scratch);
    auto* counts = reinterpret_cast<int32_t*>(a.counts);
    const auto scores_of = [&](int64_t head) {
        return reinterpret_cast<const float*>(a.scores) + static_cast<uint64_t>(head) * a.scores_stride;
    };
    const auto for_each_head = [&](int64_t least, const auto& body) {
        if (n * n_heads >= least) {
            queue.device.pool.run(n_heads, [&](int64_t head, uint32_t) { body(head); });
        } else {
            for (int64_t head = 0; head < n_heads; ++head) body(head);
        }
    };

    const auto shared_count = static_cast<int32_t>(std::floor(a.fixed_share * static_cast<float>(a.n_tokens)));
    for_each_head(kParallelCounts, [&](int64_t head) {
        const bool strict = (a.flags & KVP_SELECT_STRICT) != 0;
        counts[head] =
            a.fixed_share >= 0
                ? shared_count
                : static_cast<int32_t>(kernels.count_near(scores_of(head), pages.n_entries(head), a.alpha, strict));
    });
    if ((a.flags & KVP_SELECT_PER_HEAD) == 0 && n_heads > 0) {
        const int64_t total = std::accumulate(counts, counts + n_heads, int64_t{0});
        std::fill_n(counts, n_heads, static_cast<int32_t>(total / n_heads));
    }
    for_each_head(kParallelScores, [&](int64_t head) {
        const int64_t begin = pages.entry_from(head, a.skip_begin);
        const int64_t end = std::max(begin, pages.entry_from(head, std::max<int64_t>(0, a.n_tokens - a.skip_end)));
        const int64_t count = std::min(bounded(a, counts[head]), end - begin);
        counts[head] = static_cast<int32_t>(count);
        if (count == 0) return;
        int32_t* out = reinterpret_cast<int32_t*>(a.index) + static_cast<uint64_t>(head) * a.index_stride;
        kernels.select_largest(scores_of(head) + begin, end - begin, count, scratches + head * scratch, out);
        for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>(pages.row(head, begin + out[i]));
    });
}

}  // namespace

const Operation kSelectRows = plain_operation<run>("kvp.select_rows/1");

}  // namespace kvplane::cpu
