// kvp.page_bound_scores/1: what q . k of no row of a page exceeds. The sum over channels of max(q * greatest, q * least)
// is the product of (q's positive part, q's negative part) with (greatest, least), which stand side by side.
#include <algorithm>

#include "op.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kBlockPages = 64;
constexpr int64_t kLeastPages = 128;  // of a part

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(1);
    const auto& a = structure<kvp_page_bound_scores_arguments>(pointer, "the argument struct of page_bound_scores");
    const Matrix<float> q = operands.f32(0, "q");
    const auto d = static_cast<int64_t>(a.head_size);
    if (a.n_kv_heads == 0 || a.n_heads == 0 || a.n_heads % a.n_kv_heads != 0 || d == 0 || d % 16 != 0) {
        invalid("page_bound_scores has wrong heads");
    }
    if (q.columns != static_cast<int64_t>(a.n_heads) * d) invalid("q is not as wide as its heads");
    if (a.row < 0 || a.row >= q.rows) invalid("page_bound_scores names a row outside q");
    if (a.bounds == 0 || a.scores == 0) invalid("page_bound_scores lacks an array");
    if (a.n_pages < 0 || static_cast<uint64_t>(a.n_pages) > std::min(a.capacity, a.scores_stride)) {
        invalid("page_bound_scores counts more pages than there is room for");
    }
    const int64_t group = a.n_heads / a.n_kv_heads;
    const Kernels& kernels = queue.device.kernels;
    float* parts = queue.workspace.floats.get(a.n_heads * 2 * d);
    for (int64_t head = 0; head < a.n_heads; ++head) {
        const float* from = q.row(a.row) + head * d;
        float* to = parts + head * 2 * d;
        for (int64_t i = 0; i < d; ++i) to[i] = std::max(from[i], 0.0f);
        for (int64_t i = 0; i < d; ++i) to[d + i] = std::min(from[i], 0.0f);
    }
    const int64_t n_chunks = (a.n_pages + kLeastPages - 1) / kLeastPages;
    const int64_t stride = n_chunks * kLeastPages;
    float* raw = queue.workspace.more_floats.get(a.n_heads * (stride + 1));
    queue.device.pool.run(a.n_kv_heads * n_chunks, [&](int64_t part, uint32_t) {
        const int64_t head = part / n_chunks;
        const int64_t begin = part % n_chunks * kLeastPages;
        const int64_t end = std::min(a.n_pages, begin + kLeastPages);
        const auto* bounds = reinterpret_cast<const uint8_t*>(a.bounds) +
                             head * static_cast<int64_t>(a.capacity) * 2 * d * static_cast<int64_t>(sizeof(float));
        const uint8_t* rows[kBlockPages];
        for (int64_t first = begin; first < end; first += kBlockPages) {
            const int64_t n = std::min(kBlockPages, end - first);
            for (int64_t i = 0; i < n; ++i) {
                rows[i] = bounds + (first + i) * 2 * d * static_cast<int64_t>(sizeof(float));
            }
            kernels.score_rows(parts + head * group * 2 * d, 2 * d, group, {rows, n, 0, nullptr}, 2 * d,
                               raw + head * group * stride + first, stride);
        }
    });
    float* maxima = raw + a.n_heads * stride;
    for (int64_t head = 0; head < a.n_kv_heads; ++head) {
        float* own = raw + head * group * stride;
        for (int64_t i = 0; i < group; ++i) {
            maxima[i] = a.relative != 0 && a.n_pages > 0
                            ? *std::max_element(own + i * stride, own + i * stride + a.n_pages)
                            : 0.0f;
        }
        kernels.combine_scores(own, stride, maxima, group, a.mean == 0,
                               reinterpret_cast<float*>(a.scores) + static_cast<uint64_t>(head) * a.scores_stride,
                               a.n_pages);
    }
}

}  // namespace

const Operation kPageBoundScores = plain_operation<run>("kvp.page_bound_scores/1");

}  // namespace kvplane::cpu
