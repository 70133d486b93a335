// kvp.column_statistics/1: running sums over the columns of (skewed) queries and keys.
#include <algorithm>

#include "op.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kChunk = 64;  // rows summed in f32 before they go into the f64 sums

// Adds the rows' sums, of x * skew where there is a skew.
void add_rows(const Kernels& kernels, const float* x, int64_t stride, int64_t n_rows, int64_t d, const float* skew,
              float* skewed, float* sums) {
    if (skew != nullptr) {
        kernels.multiply(x, stride, 1, skew, d, skewed, d, n_rows, d, d, false);
        x = skewed;
        stride = d;
    }
    kernels.column_sums(x, stride, n_rows, d, sums, sums + d, sums + 2 * d);
}

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(2);
    const auto& a = structure<kvp_column_statistics_arguments>(pointer, "the argument struct of column_statistics");
    const auto d = static_cast<int64_t>(a.head_size);
    const auto n_kv_heads = static_cast<int64_t>(a.n_kv_heads);
    if (a.statistics == 0 || d == 0 || n_kv_heads == 0 || a.n_heads % a.n_kv_heads != 0) {
        invalid("column_statistics needs sums, a head size, and a whole number of query heads a KV head");
    }
    const Matrix<float> q = operands.f32(0, "q");
    const Matrix<float> k = operands.f32(1, "k", q.rows, n_kv_heads * d);
    if (q.columns != static_cast<int64_t>(a.n_heads) * d) invalid("q is not as wide as its heads");
    if (a.row_begin < 0 || a.n_rows < 0 || a.row_begin + a.n_rows > q.rows)
        invalid("column_statistics names rows outside q");

    const int64_t group = a.n_heads / a.n_kv_heads;
    const int64_t n_chunks = (a.n_rows + kChunk - 1) / kChunk;
    const auto* skew = reinterpret_cast<const float*>(a.skew);
    ThreadPool& pool = queue.device.pool;
    const Kernels& kernels = queue.device.kernels;
    float* skewed = queue.workspace.floats.get(pool.n_threads() * kChunk * d);
    float* sums = queue.workspace.more_floats.get(n_chunks * n_kv_heads * 6 * d);
    std::fill_n(sums, n_chunks * n_kv_heads * 6 * d, 0.0f);
    pool.run(n_chunks * n_kv_heads, [&](int64_t part, uint32_t worker) {
        const int64_t head = part % n_kv_heads;
        const int64_t first = a.row_begin + part / n_kv_heads * kChunk;
        const int64_t n_rows = std::min(kChunk, a.row_begin + a.n_rows - first);
        const float* matrix = skew != nullptr ? skew + head * d * d : nullptr;
        float* scratch = skewed + static_cast<int64_t>(worker) * kChunk * d;
        float* own = sums + part * 6 * d;
        for (int64_t i = 0; i < group; ++i) {
            add_rows(kernels, q.row(first) + (head * group + i) * d, q.columns, n_rows, d, matrix, scratch, own);
        }
        add_rows(kernels, k.row(first) + head * d, k.columns, n_rows, d, matrix, scratch, own + 3 * d);
    });
    // In the order of the rows, whichever thread summed them, so that results repeat.
    auto* statistics = reinterpret_cast<double*>(a.statistics);
    for (int64_t part = 0; part < n_chunks * n_kv_heads; ++part) {
        double* total = statistics + part % n_kv_heads * 5 * d;
        const float* own = sums + part * 6 * d;
        constexpr int64_t kOrder[] = {0, 2, 3, 4, 5};  // |q|, q^2, |k|, k, k^2
        for (int64_t j = 0; j < 5; ++j) {
            for (int64_t i = 0; i < d; ++i) total[j * d + i] += own[kOrder[j] * d + i];
        }
    }
}

}  // namespace

const Operation kColumnStatistics = plain_operation<run>("kvp.column_statistics/1");

}  // namespace kvplane::cpu
