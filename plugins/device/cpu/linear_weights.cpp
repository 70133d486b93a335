#include "linear_weights.h"

#include <algorithm>

namespace kvplane::cpu {
namespace {

PanelFormat packed_format(const Weights& weights, bool exact_f32) {
    return exact_f32 ? PanelFormat::F32 : weights.format;
}

}  // namespace

uint64_t LinearWeights::check(const Request& request, uint32_t first, uint32_t last, bool exact_f32) {
    uint64_t bytes = 0;
    int64_t width = 0;
    for (uint32_t i = first; i < last; ++i) {
        const std::string name = "weight " + std::to_string(i);
        const Weights weights = weights_of(request.constant(i), name.c_str());
        if (i == first) width = weights.columns;
        if (weights.columns != width) invalid(name + " is not as wide as weight " + std::to_string(first));
        bytes += packed_bytes(packed_format(weights, exact_f32), weights.rows, weights.columns);
    }
    return bytes;
}

LinearWeights::LinearWeights(const Request& request, uint32_t first, uint32_t last, bool exact_f32, ThreadPool& pool) {
    for (uint32_t i = first; i < last; ++i) {
        const Weights weights = weights_of(request.constant(i), "weight");
        weights_.push_back(pack(weights, packed_format(weights, exact_f32), pool));
        n_panels_ += weights_.back().n_panels();
        quantised_ = quantised_ || is_quantised(weights_.back().format);
    }
}

Activations LinearWeights::activations(kvp_queue& queue, const Matrix<float>& x) const {
    if (x.columns != width()) {
        invalid("x is " + std::to_string(x.columns) + " wide and the weights " + std::to_string(width()));
    }
    if (!quantised_) return {x.data, nullptr, x.columns};
    const int64_t n_blocks = x.columns / kBlock;
    ActivationBlock* blocks = queue.workspace.activations.get(x.rows * n_blocks);
    constexpr int64_t kQuantisedPerPart = 16;
    queue.device.pool.run_ranges(x.rows, kQuantisedPerPart, [&](int64_t begin, int64_t end, uint32_t) {
        for (int64_t i = begin; i < end; ++i)
            queue.device.kernels.quantise_row(x.row(i), x.columns, blocks + i * n_blocks);
    });
    return {x.data, blocks, x.columns};
}

void LinearWeights::multiply(const Kernels& kernels, const Activations& in, std::span<float* const> out,
                             const Block& block, bool accumulate) const {
    int64_t first = 0;  // panel of this weight
    for (size_t i = 0; i < weights_.size() && first < block.panel_end; first += weights_[i++].n_panels()) {
        const PackedWeights& weights = weights_[i];
        const int64_t from = std::max(block.panel_begin - first, int64_t{0});
        const int64_t to = std::min(block.panel_end - first, weights.n_panels());
        if (from >= to) continue;
        const PanelTask task{weights.memory.get() + from * weights.panel_bytes,
                             weights.panel_bytes,
                             to - from,
                             std::min(weights.rows, to * kPanelRows) - from * kPanelRows,
                             in,
                             block.row_begin,
                             block.row_end,
                             out[i] + from * kPanelRows,
                             weights.rows,
                             accumulate};
        kernels.multiply_panels[static_cast<size_t>(weights.format)](task);
    }
}

}  // namespace kvplane::cpu
