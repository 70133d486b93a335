// kvp.page_means/1: the mean K||V of each page and the spread of its K, kept up to date as rows are appended.
#include <algorithm>
#include <cmath>

#include "cached_rows.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

// The sums of a page in f32: K||V, and the squares of K.
class PageSums {
public:
    PageSums(const kvp_page_means_arguments& a, const Kernels& kernels, float* scratch)
        : a_(a),
          kernels_(kernels),
          d_(a.rows->head_size),
          sum_(scratch),
          squares_(sum_ + 2 * d_),
          row_(squares_ + d_) {}
    static int64_t floats(int64_t d) { return 5 * d; }

    // Of the first `n_rows` rows, from what is stored; a new page holds anything.
    void begin(int64_t head, int64_t page, int64_t n_rows) {
        if (n_rows == 0) {
            std::fill_n(sum_, 3 * d_, 0.0f);
            return;
        }
        const auto before = static_cast<float>(n_rows);
        load(mean_at(head, page), 2 * d_, sum_);
        if (a_.spreads != 0) {
            load(spread_at(head, page), d_, squares_);
            for (int64_t i = 0; i < d_; ++i) squares_[i] = (squares_[i] * squares_[i] + sum_[i] * sum_[i]) * before;
        }
        for (int64_t i = 0; i < 2 * d_; ++i) sum_[i] *= before;
    }
    void add(const CachedRows& cached, const uint8_t* row) {
        cached.widen(kernels_, &row, 1, row_);
        cached.widen(kernels_, &row, 1, row_ + d_, true);
        for (int64_t i = 0; i < 2 * d_; ++i) sum_[i] += row_[i];
        for (int64_t i = 0; i < d_; ++i) squares_[i] += row_[i] * row_[i];
    }
    void end(int64_t head, int64_t page, int64_t n_rows) {
        const auto after = static_cast<float>(n_rows);
        for (int64_t i = 0; i < 2 * d_; ++i) sum_[i] /= after;
        store(sum_, 2 * d_, mean_at(head, page));
        if (a_.spreads == 0) return;
        for (int64_t i = 0; i < d_; ++i) {
            squares_[i] = std::sqrt(std::max(0.0f, squares_[i] / after - sum_[i] * sum_[i]));
        }
        store(squares_, d_, spread_at(head, page));
    }

private:
    int64_t element_bytes() const { return a_.type == KVP_TYPE_F16 ? 2 : 4; }
    uint8_t* mean_at(int64_t head, int64_t page) const {
        const int64_t index = head * static_cast<int64_t>(a_.capacity) + page;
        return reinterpret_cast<uint8_t*>(a_.means) + index * 2 * d_ * element_bytes();
    }
    uint8_t* spread_at(int64_t head, int64_t page) const {
        const int64_t index = head * static_cast<int64_t>(a_.capacity) + page;
        return reinterpret_cast<uint8_t*>(a_.spreads) + index * d_ * element_bytes();
    }
    void load(const uint8_t* from, int64_t n, float* out) const {
        kernels_.widen_rows(a_.type == KVP_TYPE_F16 ? RowType::F16 : RowType::F32, {&from, 1, 0, nullptr}, n, out);
    }
    void store(const float* from, int64_t n, uint8_t* out) const {
        if (a_.type == KVP_TYPE_F16) {
            kernels_.to_f16(from, reinterpret_cast<uint16_t*>(out), n);
        } else {
            std::copy_n(from, n, reinterpret_cast<float*>(out));
        }
    }

    const kvp_page_means_arguments& a_;
    const Kernels& kernels_;
    const int64_t d_;
    float* sum_;      // [2 d]
    float* squares_;  // [d]
    float* row_;      // [2 d]
};

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(0);
    const auto& a = structure<kvp_page_means_arguments>(pointer, "the argument struct of page_means");
    const CachedRows cached(a.rows);
    const auto page_tokens = static_cast<int64_t>(a.page_tokens);
    if (a.means == 0 || page_tokens == 0) invalid("page_means has no means or pages of 0 tokens");
    if (a.type != KVP_TYPE_F16 && a.type != KVP_TYPE_F32) unsupported("page means must be f16 or f32");
    if (a.token_begin < 0 || a.token_end < a.token_begin) invalid("page_means names a wrong range of rows");
    const int64_t first = a.token_begin / page_tokens;
    const int64_t last = (a.token_end + page_tokens - 1) / page_tokens;
    if (last > first && static_cast<uint64_t>(last) > a.capacity) invalid("page_means has no room for its pages");
    cached.expect(a.token_begin, a.token_end);

    const int64_t n_pages = a.token_end > a.token_begin ? last - first : 0;
    ThreadPool& pool = queue.device.pool;
    const int64_t scratch = PageSums::floats(cached.head_size());
    float* scratches = queue.workspace.floats.get(scratch * pool.n_threads());
    pool.run(n_pages, [&](int64_t part, uint32_t worker) {
        const int64_t page = first + part;
        const int64_t begin = std::max(a.token_begin, page * page_tokens);
        const int64_t end = std::min(a.token_end, (page + 1) * page_tokens);
        PageSums sums(a, queue.device.kernels, scratches + worker * scratch);
        for (int64_t head = 0; head < cached.n_kv_heads(); ++head) {
            sums.begin(head, page, begin - page * page_tokens);
            for (int64_t token = begin; token < end; ++token) sums.add(cached, cached.row(head, token));
            sums.end(head, page, end - page * page_tokens);
        }
    });
}

}  // namespace

const Operation kPageMeans = plain_operation<run>("kvp.page_means/1");

}  // namespace kvplane::cpu
