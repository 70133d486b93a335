// kvp.select_pages/1: the pages that rows are looked for in.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cached_rows.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kBlockPages = 64;
constexpr int64_t kLeastPages = 64;  // of a part

float largest(const float* x, int64_t n) {  // a multiple of 16; in lanes that do not wait for each other
    float lanes[16];
    std::fill_n(lanes, 16, -std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < n; i += 16) {
        for (int64_t j = 0; j < 16; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
    }
    return *std::max_element(lanes, lanes + 16);
}

class SelectPages {
public:
    SelectPages(kvp_queue& queue, const Operands& operands, const kvp_select_pages_arguments& a)
        : queue_(queue), a_(a), d_(a.head_size) {
        operands.expect(1);
        const Matrix<float> q = operands.f32(0, "q");
        if (a.n_kv_heads == 0 || a.n_heads == 0 || a.n_heads % a.n_kv_heads != 0 || d_ == 0) {
            invalid("select_pages has wrong heads");
        }
        if (q.columns != static_cast<int64_t>(a.n_heads) * d_) invalid("q is not as wide as its heads");
        if (a.row < 0 || a.row >= q.rows) invalid("select_pages names a row outside q");
        if (a.means == 0 || a.spreads == 0 || a.pages == 0 || a.page_counts == 0)
            invalid("select_pages lacks an array");
        if (a.page_tokens == 0 || a.n_tokens < 0)
            invalid("select_pages has pages of 0 tokens or a wrong number of rows");
        if (a.type != KVP_TYPE_F16 && a.type != KVP_TYPE_F32) unsupported("page means must be f16 or f32");
        type_ = a.type == KVP_TYPE_F16 ? RowType::F16 : RowType::F32;
        n_pages_ = (a.n_tokens + a.page_tokens - 1) / a.page_tokens;
        if (static_cast<uint64_t>(n_pages_) > a.capacity)
            invalid("select_pages counts more pages than there are means");
        if (a.count > a.pages_stride) invalid("select_pages has no room for its pages");
        group_ = a.n_heads / a.n_kv_heads;
        q_ = q.row(a.row);
    }

    void run() {
        auto* counts = reinterpret_cast<int32_t*>(a_.page_counts);
        const int64_t n_kept = std::min<int64_t>(a_.count, n_pages_);
        std::fill_n(counts, a_.n_kv_heads, static_cast<int32_t>(n_kept));
        if (n_kept == 0) return;
        const int64_t n_heads = a_.n_heads;
        stride_ = (n_pages_ + kBlockPages - 1) / kBlockPages * kBlockPages;
        scores_ = queue_.workspace.floats.get((2 * n_heads + 1) * stride_);
        pack_queries();

        const int64_t chunk = std::max(kLeastPages, stride_ / queue_.device.pool.n_threads());
        const int64_t n_chunks = (n_pages_ + chunk - 1) / chunk;
        queue_.device.pool.run(a_.n_kv_heads * n_chunks, [&](int64_t part, uint32_t) {
            const int64_t begin = part % n_chunks * chunk;
            score(part / n_chunks, begin, std::min(n_pages_, begin + chunk));
        });
        int32_t* scratch = queue_.workspace.ints.get(select_scratch(n_pages_));
        for (int64_t head = 0; head < a_.n_kv_heads; ++head) choose(head, n_kept, scratch);
    }

private:
    const DecodeKernels& decode() const { return queue_.device.kernels.decode_exact[static_cast<size_t>(type_)]; }

    void pack_queries() {
        const int64_t n_heads = a_.n_heads;
        float* magnitudes = queue_.workspace.more_floats.get(n_heads * d_ + group_);
        maxima_ = magnitudes + n_heads * d_;
        for (int64_t i = 0; i < n_heads * d_; ++i) magnitudes[i] = std::abs(q_[i]);
        packed_ = reinterpret_cast<uint8_t*>(queue_.workspace.bytes.get(2 * n_heads * packed_query_bytes(d_)));
        decode().pack_queries(q_, n_heads, d_, packed_);
        decode().pack_queries(magnitudes, n_heads, d_, packed_ + n_heads * packed_query_bytes(d_));
    }

    // q . mean + |q| . spread, of the group's heads.
    void score(int64_t head, int64_t begin, int64_t end) const {
        const auto* means = reinterpret_cast<const uint8_t*>(a_.means);
        const auto* spreads = reinterpret_cast<const uint8_t*>(a_.spreads);
        const int64_t row_bytes = RowLayout{type_, d_}.bytes();
        const int64_t first_page = head * static_cast<int64_t>(a_.capacity);
        const uint8_t* queries = packed_ + head * group_ * packed_query_bytes(d_);
        const uint8_t* magnitudes = queries + a_.n_heads * packed_query_bytes(d_);
        const uint8_t* rows[2][kBlockPages];
        for (int64_t first = begin; first < end; first += kBlockPages) {
            const int64_t n = std::min(kBlockPages, end - first);
            for (int64_t i = 0; i < n; ++i) {
                rows[0][i] = means + (first_page + first + i) * row_bytes;
                rows[1][i] = spreads + (first_page + first + i) * row_bytes / 2;
            }
            float* scores = scores_ + head * group_ * stride_ + first;
            float* beside = scores + a_.n_heads * stride_;
            decode().score(queries, group_, {rows[0], n, 0, nullptr}, d_, scores, stride_);
            decode().score(magnitudes, group_, {rows[1], n, 0, nullptr}, d_, beside, stride_);
            for (int64_t i = 0; i < group_; ++i) {
                for (int64_t j = 0; j < n; ++j) scores[i * stride_ + j] += beside[i * stride_ + j];
            }
        }
    }

    void choose(int64_t head, int64_t n_kept, int32_t* scratch) const {
        const Kernels& kernels = queue_.device.kernels;
        float* scores = scores_ + head * group_ * stride_;
        for (int64_t i = 0; i < group_; ++i) {
            std::fill(scores + i * stride_ + n_pages_, scores + (i + 1) * stride_,
                      -std::numeric_limits<float>::infinity());
            maxima_[i] = largest(scores + i * stride_, stride_);
        }
        float* best = scores_ + 2 * a_.n_heads * stride_;
        kernels.combine_scores(scores, stride_, maxima_, group_, true, best, n_pages_);
        auto* pages = reinterpret_cast<int32_t*>(a_.pages) + static_cast<uint64_t>(head) * a_.pages_stride;
        kernels.select_largest(best, n_pages_, n_kept, scratch, pages);
    }

    kvp_queue& queue_;
    const kvp_select_pages_arguments& a_;
    const int64_t d_;
    int64_t n_pages_ = 0;
    int64_t group_ = 1;
    RowType type_ = RowType::F32;
    const float* q_ = nullptr;

    int64_t stride_ = 0;
    float* scores_ = nullptr;    // [2 * n_heads + 1][stride_]: of the means, of the spreads, the best of a group
    float* maxima_ = nullptr;    // of a group
    uint8_t* packed_ = nullptr;  // q, then |q|, of every head
};

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    SelectPages(queue, operands, structure<kvp_select_pages_arguments>(pointer, "the argument struct of select_pages"))
        .run();
}

}  // namespace

const Operation kSelectPages = plain_operation<run>("kvp.select_pages/1");

}  // namespace kvplane::cpu
