// kvp.page_bias/1: how many rows each page mean stands for, as a bias.
#include <algorithm>

#include "op.h"

namespace kvplane::cpu {
namespace {

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(0);
    const auto& a = structure<kvp_page_bias_arguments>(pointer, "the argument struct of page_bias");
    const auto page_tokens = static_cast<int64_t>(a.page_tokens);
    if (a.index == 0 || a.counts == 0 || a.bias == 0) invalid("page_bias lacks an array");
    if (page_tokens == 0 || page_tokens >> 31 != 0 || a.n_tokens < 0 || a.n_tokens >> 31 != 0) {
        invalid("page_bias has an impossible number of rows");
    }
    if (a.skip_begin < 0 || a.skip_end < 0) invalid("page_bias cannot skip fewer than 0 rows");
    const int64_t n_pages = (a.n_tokens + page_tokens - 1) / page_tokens;
    if (static_cast<uint64_t>(n_pages) > a.capacity) invalid("page_bias has no room for its pages");
    const int64_t begin = std::min(a.skip_begin, a.n_tokens);
    const int64_t end = std::max(begin, a.n_tokens - a.skip_end);

    const auto* counts = reinterpret_cast<const int32_t*>(a.counts);
    for (uint32_t head = 0; head < a.n_kv_heads; ++head) {
        if (counts[head] < 0 || static_cast<uint64_t>(counts[head]) > a.index_stride)
            invalid("page_bias counts more rows than its index holds");
    }

    const auto begin_of = [&](int64_t page) { return std::max(begin, page * page_tokens); };
    const auto end_of = [&](int64_t page) { return std::min(end, (page + 1) * page_tokens); };
    int32_t* whole = queue.workspace.ints.get((a.n_kv_heads + int64_t{1}) * std::max<int64_t>(n_pages, 1));
    for (int64_t page = 0; page < n_pages; ++page) {
        whole[page] = static_cast<int32_t>(std::max<int64_t>(0, end_of(page) - begin_of(page)));
    }
    queue.device.pool.run(a.n_kv_heads, [&](int64_t head, uint32_t) {
        int32_t* left = whole + (head + 1) * n_pages;
        std::copy_n(whole, n_pages, left);
        const int32_t* index = reinterpret_cast<const int32_t*>(a.index) + static_cast<uint64_t>(head) * a.index_stride;
        const int32_t* last = index + counts[head];
        for (const int32_t* row = index; row != last;) {
            if (*row < begin || *row >= end) {
                ++row;
                continue;
            }
            const int64_t page = *row / page_tokens;
            const int64_t from = begin_of(page);
            const int64_t to = end_of(page);
            const int32_t* first = row;  // the rows of a page stand together
            while (row != last && *row >= from && *row < to) ++row;
            left[page] -= static_cast<int32_t>(row - first);
        }
        float* bias = reinterpret_cast<float*>(a.bias) + static_cast<uint64_t>(head) * a.capacity;
        queue.device.kernels.logarithms(left, bias, n_pages);
    });
}

}  // namespace

const Operation kPageBias = plain_operation<run>("kvp.page_bias/1");

}  // namespace kvplane::cpu
