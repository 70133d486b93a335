// kvp.pool_scores/1: scores smoothed over neighbours, so that what stands beside an important row is kept with it.
#include <algorithm>

#include "op.h"

namespace kvplane::cpu {
namespace {

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(0);
    const auto& a = structure<kvp_pool_scores_arguments>(pointer, "the argument struct of pool_scores");
    if (a.scores == 0 || a.pooled == 0 || a.scores == a.pooled) invalid("pool_scores needs scores and another array");
    if (a.width % 2 == 0) invalid("pool_scores has a window of even width");
    if (a.mode != KVP_POOL_MEAN && a.mode != KVP_POOL_MAX) unsupported("unknown mode of pool_scores");
    if (a.n < 0 || static_cast<uint64_t>(a.n) > std::min(a.stride, a.pooled_stride)) {
        invalid("pool_scores has no room for its scores");
    }
    const auto half = static_cast<int64_t>(a.width / 2);
    float* divided = queue.workspace.floats.get(std::max<int64_t>(1, a.n * a.n_kv_heads));
    queue.device.pool.run(a.n_kv_heads, [&](int64_t head, uint32_t) {
        const float* scores = reinterpret_cast<const float*>(a.scores) + static_cast<uint64_t>(head) * a.stride;
        const float* counts = reinterpret_cast<const float*>(a.counts) + static_cast<uint64_t>(head) * a.stride;
        float* values = divided + head * a.n;
        for (int64_t i = 0; i < a.n; ++i) {
            values[i] = a.counts == 0 ? scores[i] : counts[i] > 0 ? scores[i] / counts[i] : 0.0f;
        }
        float* pooled = reinterpret_cast<float*>(a.pooled) + static_cast<uint64_t>(head) * a.pooled_stride;
        for (int64_t i = 0; i < a.n; ++i) {
            const float* begin = values + std::max<int64_t>(0, i - half);
            const float* end = values + std::min(a.n, i + half + 1);
            if (a.mode == KVP_POOL_MAX) {
                pooled[i] = *std::max_element(begin, end);
            } else {
                float sum = 0;
                for (const float* value = begin; value < end; ++value) sum += *value;
                pooled[i] = sum / static_cast<float>(a.width);
            }
        }
    });
}

}  // namespace

const Operation kPoolScores = plain_operation<run>("kvp.pool_scores/1");

}  // namespace kvplane::cpu
