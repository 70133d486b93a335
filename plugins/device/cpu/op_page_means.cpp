// kvp.page_means/1: the mean K||V of each page and the spread of its K, kept up to date as rows are appended.
#include <algorithm>
#include <cmath>

#include "cached_rows.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

// squares: of K alone, where they are wanted.
void add_row(const Kernels& kernels, const CachedRows& cached, const uint8_t* row, float* wide, float* sum,
             float* squares) {
    const int64_t n = 2 * cached.head_size();
    cached.widen(kernels, &row, 1, wide);
    cached.widen(kernels, &row, 1, wide + cached.head_size(), true);
    kernels.shift_add(wide, 0.0f, sum, n);
    if (squares == nullptr) return;
    for (int64_t i = 0; i < cached.head_size(); ++i) squares[i] += wide[i] * wide[i];
}

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(0);
    const auto& a = structure<kvp_page_means_arguments>(pointer, "the argument struct of page_means");
    const CachedRows cached(a.rows);
    const auto page_tokens = static_cast<int64_t>(a.page_tokens);
    if (a.means == 0 || page_tokens == 0) invalid("page_means has no means or pages of 0 tokens");
    if (a.token_begin < 0 || a.token_end < a.token_begin) invalid("page_means names a wrong range of rows");
    const int64_t first = a.token_begin / page_tokens;
    const int64_t last = (a.token_end + page_tokens - 1) / page_tokens;
    if (last > first && static_cast<uint64_t>(last) > a.capacity) invalid("page_means has no room for its pages");
    cached.expect(a.token_begin, a.token_end);

    const int64_t n = 2 * cached.head_size();
    const int64_t n_pages = a.token_end > a.token_begin ? last - first : 0;
    const Kernels& kernels = queue.device.kernels;
    ThreadPool& pool = queue.device.pool;
    float* wide = queue.workspace.floats.get(n * pool.n_threads());
    pool.run(n_pages, [&](int64_t part, uint32_t worker) {
        const int64_t page = first + part;
        const int64_t begin = std::max(a.token_begin, page * page_tokens);
        const int64_t end = std::min(a.token_end, (page + 1) * page_tokens);
        const auto before = static_cast<float>(begin - page * page_tokens);
        const auto after = static_cast<float>(end - page * page_tokens);
        for (int64_t head = 0; head < cached.n_kv_heads(); ++head) {
            float* mean = reinterpret_cast<float*>(a.means) + (head * static_cast<int64_t>(a.capacity) + page) * n;
            float* spread = nullptr;
            if (a.spreads != 0) {
                spread = reinterpret_cast<float*>(a.spreads) + (head * static_cast<int64_t>(a.capacity) + page) * n / 2;
                for (int64_t i = 0; i < n / 2; ++i)
                    spread[i] = before == 0 ? 0.0f : (spread[i] * spread[i] + mean[i] * mean[i]) * before;
            }
            for (int64_t i = 0; i < n; ++i)
                mean[i] = before == 0 ? 0.0f : mean[i] * before;  // a new page holds anything
            for (int64_t token = begin; token < end; ++token) {
                add_row(kernels, cached, cached.row(head, token), wide + worker * n, mean, spread);
            }
            for (int64_t i = 0; i < n; ++i) mean[i] /= after;
            if (spread == nullptr) continue;
            for (int64_t i = 0; i < n / 2; ++i)
                spread[i] = std::sqrt(std::max(0.0f, spread[i] / after - mean[i] * mean[i]));
        }
    });
}

}  // namespace

const Operation kPageMeans = plain_operation<run>("kvp.page_means/1");

}  // namespace kvplane::cpu
