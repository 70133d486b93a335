// kvp.partial_index/1: picks the columns that matter and makes the projection on them.
#include <algorithm>
#include <numeric>

#include "op.h"

namespace kvplane::cpu {
namespace {

// The n best columns, best first; equal ones: the lower first.
std::vector<int32_t> best_columns(const std::vector<double>& score, int64_t n) {
    std::vector<int32_t> order(score.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return score[static_cast<size_t>(a)] > score[static_cast<size_t>(b)];
    });
    order.resize(static_cast<size_t>(n));
    return order;
}

std::vector<int32_t> choose(const kvp_partial_index_arguments& a, const double* statistics) {
    const size_t d = a.head_size;
    const double group = a.n_heads / a.n_kv_heads;
    const auto n_rows = static_cast<double>(a.n_rows);
    const double* abs_q = statistics;
    const double* square_q = statistics + d;
    const double* abs_k = statistics + 2 * d;
    const double* sum_k = statistics + 3 * d;
    const double* square_k = statistics + 4 * d;
    std::vector<double> score(abs_q, abs_q + d);
    if (a.mode == KVP_COLUMNS_ABS_SUM) {
        for (size_t i = 0; i < d; ++i) score[i] = abs_q[i] / group + abs_k[i];
    } else if (a.mode == KVP_COLUMNS_ENERGY) {
        for (size_t i = 0; i < d; ++i) {
            const double mean = sum_k[i] / n_rows;
            // One row has no variance, only the rounding of its square.
            const double variance = a.n_rows > 1 ? square_k[i] / n_rows - mean * mean : 1;
            score[i] = square_q[i] / (n_rows * group) * variance;
        }
    }
    std::vector<int32_t> chosen = best_columns(score, a.n_chosen);
    if (a.mode == KVP_COLUMNS_UNION) {
        for (const int32_t column : best_columns(std::vector<double>(abs_k, abs_k + d), a.n_chosen)) {
            if (std::find(chosen.begin(), chosen.end(), column) == chosen.end()) chosen.push_back(column);
        }
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
}

void run(kvp_queue&, const Operands& operands, const void* pointer) {
    operands.expect(0);
    const auto& a = structure<kvp_partial_index_arguments>(pointer, "the argument struct of partial_index");
    if (a.statistics == 0 || a.projection == 0 || a.index == 0 || a.mean == 0) invalid("partial_index lacks an array");
    if (a.head_size == 0 || a.n_kv_heads == 0 || a.n_heads % a.n_kv_heads != 0)
        invalid("partial_index has wrong heads");
    if (a.mode < KVP_COLUMNS_ABS_SUM || a.mode > KVP_COLUMNS_ENERGY) unsupported("unknown rule for columns");
    if (a.n_chosen == 0 || a.n_chosen > a.head_size) invalid("partial_index must choose 1 to head_size columns");
    const uint64_t most = std::min<uint64_t>(a.head_size, uint64_t{a.n_chosen} * (a.mode == KVP_COLUMNS_UNION ? 2 : 1));
    if (a.n_columns < most) invalid("partial_index has no room for " + std::to_string(most) + " columns");
    if (a.n_rows <= 0) invalid("partial_index needs statistics of at least one row");
    const size_t d = a.head_size;
    const size_t n = a.n_columns;
    for (size_t head = 0; head < a.n_kv_heads; ++head) {
        const double* statistics = reinterpret_cast<const double*>(a.statistics) + head * 5 * d;
        const float* skew = a.skew != 0 ? reinterpret_cast<const float*>(a.skew) + head * d * d : nullptr;
        float* projection = reinterpret_cast<float*>(a.projection) + head * d * n;
        int32_t* index = reinterpret_cast<int32_t*>(a.index) + head * n;
        float* mean = reinterpret_cast<float*>(a.mean) + head * n;
        const std::vector<int32_t> chosen = choose(a, statistics);
        std::fill_n(projection, d * n, 0.0f);
        std::fill_n(index, n, -1);
        std::fill_n(mean, n, 0.0f);
        for (size_t j = 0; j < chosen.size(); ++j) {
            const auto column = static_cast<size_t>(chosen[j]);
            index[j] = chosen[j];
            mean[j] = static_cast<float>(statistics[3 * d + column] / static_cast<double>(a.n_rows));
            for (size_t i = 0; i < d; ++i) projection[i * n + j] = skew != nullptr ? skew[i * d + column] : i == column;
        }
    }
}

}  // namespace

const Operation kPartialIndex = plain_operation<run>("kvp.partial_index/1");

}  // namespace kvplane::cpu
