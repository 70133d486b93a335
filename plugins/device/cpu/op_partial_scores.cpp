// kvp.partial_scores/1: how much each cached row matters to a query, from partial keys.
#include <algorithm>
#include <limits>

#include "op.h"
#include "partial_rows.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kBlock64 = 64;
constexpr int64_t kLeastRows = 512;  // of a part

class PartialScores {
public:
    PartialScores(kvp_queue& queue, const Operands& operands, const kvp_partial_scores_arguments& a)
        : queue_(queue), a_(a), keys_(a.keys, a.capacity, a.type, a.n_columns), n_(a.n_columns), d_(a.head_size) {
        operands.expect(1);
        const Matrix<float> q = operands.f32(0, "q");
        if (a.n_kv_heads == 0 || a.n_heads == 0 || a.n_heads % a.n_kv_heads != 0 || d_ == 0) {
            invalid("partial_scores has wrong heads");
        }
        if (q.columns != static_cast<int64_t>(a.n_heads) * d_) invalid("q is not as wide as its heads");
        if (a.row < 0 || a.row >= q.rows) invalid("partial_scores names a row outside q");
        if (a.projection == 0 || a.scores == 0) invalid("partial_scores lacks an array");
        if ((a.type == KVP_TYPE_I8 || a.type == KVP_TYPE_I4) && a.scales == 0)
            invalid("quantised partial keys need scales");
        if (a.n_tokens < 0 || a.n_tokens > keys_.capacity || static_cast<uint64_t>(a.n_tokens) > a.scores_stride) {
            invalid("partial_scores counts more rows than there is room for");
        }
        group_ = a.n_heads / a.n_kv_heads;
        q_ = q.row(a.row);
    }

    void run() {
        if (a_.n_tokens == 0) return;
        ThreadPool& pool = queue_.device.pool;
        const Kernels& kernels = queue_.device.kernels;
        const int64_t n_kv_heads = a_.n_kv_heads;
        const int64_t n_heads = a_.n_heads;
        const int64_t n = a_.n_tokens;
        const int64_t wanted = pool.n_threads() * ThreadPool::kPartsPerThread;
        const int64_t even = (n * n_kv_heads / wanted + kBlock64 - 1) / kBlock64 * kBlock64;
        const int64_t size = std::max(kLeastRows, even);
        const int64_t n_chunks = (n + size - 1) / size;

        float* queries = queue_.workspace.more_floats.get(n_heads * n_ + n_heads * n_chunks);
        float* maxima = queries + n_heads * n_;  // [n_heads][n_chunks]
        float* raw = queue_.workspace.floats.get(n_heads * n);
        for (int64_t head = 0; head < n_kv_heads; ++head) project(head, queries + head * group_ * n_);

        pool.run(n_kv_heads * n_chunks, [&](int64_t part, uint32_t) {
            const int64_t head = part / n_chunks;
            const int64_t chunk = part % n_chunks;
            const int64_t begin = chunk * size;
            const int64_t end = std::min(n, begin + size);
            score(head, queries + head * group_ * n_, begin, end, raw + head * group_ * n);
            for (int64_t i = 0; i < group_; ++i) {
                maxima[(head * group_ + i) * n_chunks + chunk] =
                    kernels.maximum(raw + (head * group_ + i) * n + begin, end - begin);
            }
        });
        pool.run(n_kv_heads * n_chunks, [&](int64_t part, uint32_t) {
            const int64_t head = part / n_chunks;
            const int64_t begin = part % n_chunks * size;
            combine(head, begin, std::min(n, begin + size), raw, maxima, n_chunks);
        });
    }

private:
    // The group's queries on the chosen columns, times the scale of scores and, for i4, of the columns.
    void project(int64_t head, float* out) const {
        const float* projection = reinterpret_cast<const float*>(a_.projection) + head * d_ * n_;
        queue_.device.kernels.multiply(q_ + head * group_ * d_, d_, 1, projection, n_, out, n_, group_, d_, n_, false);
        const float* steps = a_.type == KVP_TYPE_I4 ? reinterpret_cast<const float*>(a_.scales) + head * n_ : nullptr;
        for (int64_t i = 0; i < group_ * n_; ++i) out[i] *= a_.scale * (steps != nullptr ? steps[i % n_] : 1.0f);
    }

    void score(int64_t head, const float* queries, int64_t begin, int64_t end, float* raw) const {
        const Kernels& kernels = queue_.device.kernels;
        int8_t unpacked[kBlock64 * kMostPartialColumns];
        const uint8_t* rows[kBlock64];
        const RowType type = a_.type == KVP_TYPE_F32   ? RowType::F32
                             : a_.type == KVP_TYPE_F16 ? RowType::F16
                                                       : RowType::I8;
        for (int64_t at = begin; at < end; at += kBlock64) {
            const int64_t here = std::min(kBlock64, end - at);
            for (int64_t i = 0; i < here; ++i) {
                const uint8_t* row = keys_.row(head, at + i);
                rows[i] = row;
                if (a_.type != KVP_TYPE_I4) continue;
                int8_t* wide = unpacked + i * n_;
                for (int64_t c = 0; c < n_ / 2; ++c) {
                    wide[2 * c] = static_cast<int8_t>((row[c] & 15) - 8);
                    wide[2 * c + 1] = static_cast<int8_t>((row[c] >> 4) - 8);
                }
                rows[i] = reinterpret_cast<const uint8_t*>(wide);
            }
            kernels.score_rows(type, queries, n_, group_, {rows, here, 0, nullptr}, n_, raw + at, a_.n_tokens);
            if (a_.type == KVP_TYPE_I8) {
                const float* steps = reinterpret_cast<const float*>(a_.scales) + head * keys_.capacity + at;
                for (int64_t i = 0; i < group_; ++i) kernels.scale_by(raw + i * a_.n_tokens + at, steps, here);
            }
        }
    }

    void combine(int64_t head, int64_t begin, int64_t end, const float* raw, const float* maxima,
                 int64_t n_chunks) const {
        const Kernels& kernels = queue_.device.kernels;
        float* out = reinterpret_cast<float*>(a_.scores) + static_cast<uint64_t>(head) * a_.scores_stride;
        const bool best = a_.best_head != 0;
        std::fill(out + begin, out + end, best ? -std::numeric_limits<float>::infinity() : 0.0f);
        for (int64_t i = 0; i < group_; ++i) {
            const int64_t own = head * group_ + i;
            const float most = *std::max_element(maxima + own * n_chunks, maxima + (own + 1) * n_chunks);
            const auto add = best ? kernels.shift_max : kernels.shift_add;
            add(raw + own * a_.n_tokens + begin, most, out + begin, end - begin);
        }
        if (!best) {
            for (int64_t i = begin; i < end; ++i) out[i] /= static_cast<float>(group_);
        }
    }

    kvp_queue& queue_;
    const kvp_partial_scores_arguments& a_;
    const PartialRows keys_;
    const int64_t n_;
    const int64_t d_;
    int64_t group_ = 1;
    const float* q_ = nullptr;
};

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    PartialScores(queue, operands,
                  structure<kvp_partial_scores_arguments>(pointer, "the argument struct of partial_scores"))
        .run();
}

}  // namespace

const Operation kPartialScores = plain_operation<run>("kvp.partial_scores/1");

}  // namespace kvplane::cpu
