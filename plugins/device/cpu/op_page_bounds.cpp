// kvp.page_bounds/1: the greatest and the least value of each channel of a page's K, kept up to date as rows are appended.
#include <algorithm>
#include <limits>

#include "cached_rows.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(0);
    const auto& a = structure<kvp_page_bounds_arguments>(pointer, "the argument struct of page_bounds");
    const CachedRows cached(a.rows);
    const auto page_tokens = static_cast<int64_t>(a.page_tokens);
    if (a.bounds == 0 || page_tokens == 0) invalid("page_bounds has no bounds or pages of 0 tokens");
    if (a.token_begin < 0 || a.token_end < a.token_begin) invalid("page_bounds names a wrong range of rows");
    const int64_t first = a.token_begin / page_tokens;
    const int64_t last = (a.token_end + page_tokens - 1) / page_tokens;
    if (last > first && static_cast<uint64_t>(last) > a.capacity) invalid("page_bounds has no room for its pages");
    cached.expect(a.token_begin, a.token_end);

    const int64_t d = cached.head_size();
    const int64_t n_pages = a.token_end > a.token_begin ? last - first : 0;
    const Kernels& kernels = queue.device.kernels;
    ThreadPool& pool = queue.device.pool;
    float* wide = queue.workspace.floats.get(d * pool.n_threads());
    pool.run(n_pages * cached.n_kv_heads(), [&](int64_t part, uint32_t worker) {
        const int64_t head = part % cached.n_kv_heads();
        const int64_t page = first + part / cached.n_kv_heads();
        const int64_t begin = std::max(a.token_begin, page * page_tokens);
        const int64_t end = std::min(a.token_end, (page + 1) * page_tokens);
        float* greatest = reinterpret_cast<float*>(a.bounds) + (head * static_cast<int64_t>(a.capacity) + page) * 2 * d;
        float* least = greatest + d;
        if (begin == page * page_tokens) {  // a new page holds anything
            std::fill_n(greatest, d, -std::numeric_limits<float>::infinity());
            std::fill_n(least, d, std::numeric_limits<float>::infinity());
        }
        float* key = wide + worker * d;
        for (int64_t token = begin; token < end; ++token) {
            const uint8_t* row = cached.row(head, token);
            cached.widen(kernels, &row, 1, key);
            for (int64_t i = 0; i < d; ++i) greatest[i] = std::max(greatest[i], key[i]);
            for (int64_t i = 0; i < d; ++i) least[i] = std::min(least[i], key[i]);
        }
    });
}

}  // namespace

const Operation kPageBounds = plain_operation<run>("kvp.page_bounds/1");

}  // namespace kvplane::cpu
