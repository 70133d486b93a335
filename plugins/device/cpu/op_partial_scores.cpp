// kvp.partial_scores/1: how much each cached row matters to a query, from partial keys.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>

#include "op.h"
#include "page_lists.h"
#include "partial_rows.h"
#include "projection.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kBlock64 = 64;
constexpr int64_t kLeastRows = 512;    // of a part
constexpr int64_t kBytesAhead = 8192;  // of partial keys, that are asked for while others are read

class PartialScores {
public:
    PartialScores(kvp_queue& queue, const Operands& operands, const kvp_partial_scores_arguments& a)
        : queue_(queue),
          a_(a),
          keys_(a.keys, a.capacity, a.type, a.n_columns),
          pages_(a.pages, a.page_counts, a.pages_stride, a.page_tokens, a.n_kv_heads, a.n_tokens),
          n_(a.n_columns),
          padded_(padded_columns(keys_.format, a.n_columns)),
          d_(a.head_size) {
        operands.expect(1);
        const Matrix<float> q = operands.f32(0, "q");
        if (a.n_kv_heads == 0 || a.n_heads == 0 || a.n_heads % a.n_kv_heads != 0 || d_ == 0) {
            invalid("partial_scores has wrong heads");
        }
        if (q.columns != static_cast<int64_t>(a.n_heads) * d_) invalid("q is not as wide as its heads");
        if (a.row < 0 || a.row >= q.rows) invalid("partial_scores names a row outside q");
        if (a.scores == 0) invalid("partial_scores lacks an array");
        if (a.group_score > KVP_GROUP_MASS) invalid("partial_scores knows no such score of a group");
        if (keys_.has_codes() && a.scales == 0) invalid("quantised partial keys need scales");
        if (a.n_tokens < 0 || a.n_tokens > keys_.capacity) invalid("partial_scores counts more rows than there are");
        if (static_cast<uint64_t>(pages_.most_entries()) > a.scores_stride) {
            invalid("partial_scores has no room for its scores");
        }
        if (pages_.listed() && a.page_tokens % kKeyTile != 0) invalid("listed pages hold whole tiles of 16 rows");
        projection_.emplace(a.projection, a.columns, d_, n_, a.n_kv_heads);
        group_ = a.n_heads / a.n_kv_heads;
        q_ = q.row(a.row);
    }

    void run() {
        const int64_t n = pages_.most_entries();
        if (n == 0) return;
        ThreadPool& pool = queue_.device.pool;
        const int64_t n_kv_heads = a_.n_kv_heads;
        const int64_t wanted = pool.n_threads() * ThreadPool::kPartsPerThread;
        const int64_t even = (n * n_kv_heads / wanted + kBlock64 - 1) / kBlock64 * kBlock64;
        chunk_ = std::max(kLeastRows, even);
        if (pages_.listed()) chunk_ = (chunk_ + a_.page_tokens - 1) / a_.page_tokens * a_.page_tokens;
        n_chunks_ = (n + chunk_ - 1) / chunk_;
        raw_stride_ = (n + kKeyTile - 1) / kKeyTile * kKeyTile;
        raw_ = queue_.workspace.floats.get(a_.n_heads * raw_stride_);
        make_queries();
        int32_t* left = queue_.workspace.ints.get(n_kv_heads);
        std::fill_n(left, n_kv_heads, static_cast<int32_t>(n_chunks_));

        pool.run(n_kv_heads * n_chunks_, [&](int64_t part, uint32_t) {
            const int64_t head = part / n_chunks_;
            score(head, part % n_chunks_);
            // Whoever is last of a head knows its maxima.
            if (std::atomic_ref(left[head]).fetch_sub(1, std::memory_order_acq_rel) == 1) combine(head);
        });
    }

private:
    // The group's queries on the chosen columns, times the scale of scores and, for i4, of the columns.
    void make_queries() {
        const Kernels& kernels = queue_.device.kernels;
        const int64_t n_heads = a_.n_heads;
        float* values = queue_.workspace.more_floats.get(n_heads * (n_ + n_chunks_));
        maxima_ = values + n_heads * n_;
        std::fill_n(maxima_, n_heads * n_chunks_, -std::numeric_limits<float>::infinity());
        auto* parts = queue_.workspace.bytes.get(2 * n_heads * padded_);
        queries_ = queue_.workspace.key_queries.get(n_heads);
        for (int64_t head = 0; head < a_.n_kv_heads; ++head) {
            float* own = values + head * group_ * n_;
            projection_->apply(kernels, head, q_ + head * group_ * d_, group_, own);
            const float* steps =
                keys_.format == KeyFormat::I4 ? reinterpret_cast<const float*>(a_.scales) + head * n_ : nullptr;
            for (int64_t i = 0; i < group_; ++i) {
                float* line = own + i * n_;
                for (int64_t c = 0; c < n_; ++c) line[c] *= steps != nullptr ? a_.scale * steps[c] : a_.scale;
                KeyQuery& query = queries_[head * group_ + i];
                query = {line, nullptr, nullptr, 0, 0, 0};
                if (!keys_.has_codes()) continue;
                int8_t* high = parts + 2 * (head * group_ + i) * padded_;
                kernels.split_query(keys_.format, n_, high, high + padded_, &query);
            }
        }
    }

    void score(int64_t head, int64_t chunk) const {
        const int64_t begin = chunk * chunk_;
        const int64_t end = std::min(pages_.n_entries(head), begin + chunk_);
        const int64_t step = pages_.listed() ? a_.page_tokens : kBlock64;
        const int64_t step_bytes = step / kKeyTile * keys_.tile_bytes;
        const int64_t steps_ahead = (kBytesAhead + step_bytes - 1) / step_bytes;
        const auto tiles = [&](int64_t entry) {
            return keys_.tiles(head) + pages_.row(head, entry) / kKeyTile * keys_.tile_bytes;
        };
        const auto* of_head =
            keys_.format == KeyFormat::I8 ? reinterpret_cast<const float*>(a_.scales) + head * keys_.capacity : nullptr;
        const auto scales = [&](int64_t entry) { return of_head ? of_head + pages_.row(head, entry) : nullptr; };
        for (int64_t at = begin; at < end; at += step) {
            const int64_t ahead = at + steps_ahead * step;
            const KeyScan scan{tiles(at),
                               scales(at),
                               n_,
                               std::min(step, end - at),
                               queries_ + head * group_,
                               group_,
                               raw_ + head * group_ * raw_stride_ + at,
                               raw_stride_,
                               maxima_ + (head * n_chunks_ + chunk) * group_,
                               ahead < end ? tiles(ahead) : nullptr,
                               ahead < end ? scales(ahead) : nullptr};
            queue_.device.kernels.scan_keys[static_cast<size_t>(keys_.format)](scan);
        }
    }

    void combine(int64_t head) const {
        float* maxima = maxima_ + head * n_chunks_ * group_;
        for (int64_t chunk = 1; chunk < n_chunks_; ++chunk) {
            for (int64_t i = 0; i < group_; ++i) maxima[i] = std::max(maxima[i], maxima[chunk * group_ + i]);
        }
        const Kernels& kernels = queue_.device.kernels;
        const float* raw = raw_ + head * group_ * raw_stride_;
        for (int64_t i = 0; i < group_ && a_.group_score == KVP_GROUP_MASS; ++i) {
            const float sum = kernels.sum_of_exponentials(raw + i * raw_stride_, pages_.n_entries(head), maxima[i]);
            maxima[i] += std::log(sum);
        }
        kernels.combine_scores(raw, raw_stride_, maxima, group_, a_.group_score != KVP_GROUP_MEAN,
                               reinterpret_cast<float*>(a_.scores) + static_cast<uint64_t>(head) * a_.scores_stride,
                               pages_.n_entries(head));
    }

    kvp_queue& queue_;
    const kvp_partial_scores_arguments& a_;
    const PartialRows keys_;
    const PageLists pages_;
    const int64_t n_;
    const int64_t padded_;
    const int64_t d_;
    std::optional<Projection> projection_;
    int64_t group_ = 1;
    const float* q_ = nullptr;

    int64_t chunk_ = 0;
    int64_t n_chunks_ = 0;
    int64_t raw_stride_ = 0;
    float* raw_ = nullptr;         // [n_heads][raw_stride_]
    float* maxima_ = nullptr;      // [n_kv_heads][n_chunks_][group_]
    KeyQuery* queries_ = nullptr;  // [n_heads]
};

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    PartialScores(queue, operands,
                  structure<kvp_partial_scores_arguments>(pointer, "the argument struct of partial_scores"))
        .run();
}

}  // namespace

const Operation kPartialScores = plain_operation<run>("kvp.partial_scores/1");

}  // namespace kvplane::cpu
