// kvp.column_sums/1: how much attention each cached row got. Scores are made once more and turned into probabilities by the
// log-sum-exp that attention left, so that no attention kernel has to keep them.
#include <algorithm>

#include "cached_rows.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kBlockRows = 64;
constexpr int64_t kTileTokens = 8;  // query rows that are scored together, with all heads of a group

class ColumnSums {
public:
    ColumnSums(kvp_queue& queue, const Operands& operands, const kvp_column_sums_arguments& a)
        : queue_(queue), a_(a), cached_(a.rows), d_(cached_.head_size()) {
        operands.expect(2);
        q_ = operands.f32(0, "q");
        lse_ = operands.f32(1, "lse", q_.rows, a.n_heads);
        if (a.n_heads == 0 || a.n_heads % cached_.n_kv_heads() != 0) invalid("column_sums has wrong heads");
        if (q_.columns != static_cast<int64_t>(a.n_heads) * d_) invalid("q is not as wide as its heads");
        if (a.row_begin < 0 || a.n_rows < 0 || a.row_begin + a.n_rows > q_.rows)
            invalid("column_sums names rows outside q");
        if (a.sums == 0) invalid("column_sums has no sums");
        if (a.token_begin < 0 || a.token_end < a.token_begin || static_cast<uint64_t>(a.token_end) > a.capacity) {
            invalid("column_sums names cached rows that it has no room for");
        }
        cached_.expect(a.token_begin, a.token_end);
        group_ = a.n_heads / cached_.n_kv_heads();
    }

    void run() {
        scaled_ = queue_.workspace.floats.get(a_.n_rows * q_.columns);
        const float* from = q_.row(a_.row_begin);
        for (int64_t i = 0; i < a_.n_rows * q_.columns; ++i) scaled_[i] = from[i] * a_.scale;
        ThreadPool& pool = queue_.device.pool;
        const int64_t tile = kTileTokens * group_;
        const int64_t floats = kBlockRows * d_ + tile * (d_ + kBlockRows + 16 + 1 + 1) + kBlockRows;
        float* scratch = queue_.workspace.more_floats.get(pool.n_threads() * floats);
        const int64_t n_blocks = (a_.token_end - a_.token_begin + kBlockRows - 1) / kBlockRows;
        pool.run(n_blocks * cached_.n_kv_heads(), [&](int64_t part, uint32_t worker) {
            sum_block(part % cached_.n_kv_heads(), a_.token_begin + part / cached_.n_kv_heads() * kBlockRows,
                      scratch + worker * floats);
        });
    }

private:
    void sum_block(int64_t head, int64_t begin, float* scratch) const {
        const Kernels& kernels = queue_.device.kernels;
        const int64_t n = std::min(kBlockRows, a_.token_end - begin);
        const int64_t padded = (n + 15) / 16 * 16;
        const int64_t tile = kTileTokens * group_;
        float* keys = scratch;
        float* queries = keys + kBlockRows * d_;
        float* weights = queries + tile * d_;
        float* lane_sums = weights + tile * kBlockRows;
        float* maxima = lane_sums + tile * 16;
        auto* visible = reinterpret_cast<int32_t*>(maxima + tile);
        float* block_sums = maxima + 2 * tile;
        const uint8_t* rows[kBlockRows];
        for (int64_t i = 0; i < n; ++i) rows[i] = cached_.row(head, begin + i);
        cached_.widen(kernels, rows, n, keys);
        for (int64_t i = 0; i < n; ++i) rows[i] = reinterpret_cast<const uint8_t*>(keys + i * d_);
        std::fill_n(block_sums, kBlockRows, 0.0f);
        std::fill_n(lane_sums, tile * 16, 0.0f);

        // Queries before the block see none of it.
        const int64_t first = std::clamp<int64_t>(begin - a_.query_begin, 0, a_.n_rows);
        for (int64_t at = first; at < a_.n_rows; at += kTileTokens) {
            const int64_t n_tokens = std::min(kTileTokens, a_.n_rows - at);
            for (int64_t i = 0; i < n_tokens * group_; ++i) {
                const int64_t token = at + i / group_;
                const int64_t at_head = head * group_ + i % group_;
                std::copy_n(scaled_ + token * q_.columns + at_head * d_, d_, queries + i * d_);
                maxima[i] = lse_.row(a_.row_begin + token)[at_head];
                visible[i] = static_cast<int32_t>(std::clamp<int64_t>(a_.query_begin + token + 1 - begin, 0, n));
            }
            kernels.score_rows(queries, d_, n_tokens * group_, {rows, n, 0, nullptr}, d_, weights, kBlockRows);
            // A softmax whose maximum is the log-sum-exp gives probabilities.
            kernels.decode_exact[static_cast<size_t>(RowType::F32)].softmax(
                weights, kBlockRows, n_tokens * group_, visible, padded, maxima, lane_sums, nullptr, 0);
            for (int64_t i = 0; i < n_tokens * group_; ++i) {
                for (int64_t j = 0; j < padded; ++j) block_sums[j] += weights[i * kBlockRows + j];
            }
        }
        add(head, begin, n, block_sums);
    }

    void add(int64_t head, int64_t begin, int64_t n, const float* block_sums) const {
        const int64_t at = head * static_cast<int64_t>(a_.capacity) + begin;
        float* sums = reinterpret_cast<float*>(a_.sums) + at;
        float* counts = a_.counts != 0 ? reinterpret_cast<float*>(a_.counts) + at : nullptr;
        for (int64_t i = 0; i < n; ++i) {
            const bool fresh = begin + i >= a_.fresh_begin;
            const int64_t unseen = std::clamp<int64_t>(begin + i - a_.query_begin, 0, a_.n_rows);
            sums[i] = (fresh ? 0.0f : sums[i]) + block_sums[i];
            if (counts == nullptr) continue;
            counts[i] = (fresh ? 0.0f : counts[i]) + static_cast<float>(a_.n_rows - unseen);
        }
    }

    kvp_queue& queue_;
    const kvp_column_sums_arguments& a_;
    const CachedRows cached_;
    const int64_t d_;
    int64_t group_ = 1;
    Matrix<float> q_{};
    Matrix<float> lse_{};
    float* scaled_ = nullptr;  // [n_rows][H*d], q times the scale
};

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    ColumnSums(queue, operands, structure<kvp_column_sums_arguments>(pointer, "the argument struct of column_sums"))
        .run();
}

}  // namespace

const Operation kColumnSums = plain_operation<run>("kvp.column_sums/1");

}  // namespace kvplane::cpu
