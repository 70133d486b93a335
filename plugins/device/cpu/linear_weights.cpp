#include "linear_weights.h"

#include <algorithm>

namespace kvplane::cpu {
namespace {

PanelFormat packed_format(const Weights& weights, bool exact_f32) {
    return exact_f32 ? PanelFormat::F32 : weights.format;
}

}  // namespace

Norm::Norm(const kvp_tensor& tensor, float eps) : epsilon(eps) {
    const Matrix<float> values = f32_matrix(tensor, "the norm's weight");
    weight.assign(values.data, values.data + values.rows * values.columns);
}

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

Activations LinearWeights::activations(kvp_queue& queue, const Matrix<float>& x, const Norm& norm) const {
    if (x.columns != width()) {
        invalid("x is " + std::to_string(x.columns) + " wide and the weights " + std::to_string(width()));
    }
    const bool normed = !norm.weight.empty();
    if (normed && static_cast<int64_t>(norm.weight.size()) != x.columns)
        invalid("x is not as wide as the norm's weight");
    if (!quantised_ && !normed) return {x.data, nullptr, x.columns};
    const Kernels& kernels = queue.device.kernels;
    ThreadPool& pool = queue.device.pool;
    const int64_t n_blocks = quantised_ ? x.columns / kBlock : 0;
    ActivationBlock* blocks = queue.workspace.activations.get(x.rows * n_blocks);
    // A row that goes on to int8 is normed where it stays in L1; weights of both kinds need it whole as well.
    float* rows = normed ? queue.workspace.floats.get(x.rows * x.columns) : x.data;
    constexpr int64_t kRowsPerPart = 16;
    pool.run_ranges(x.rows, kRowsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
        for (int64_t i = begin; i < end; ++i) {
            float* row = rows + i * x.columns;
            if (normed) kernels.rms_norm(x.row(i), norm.weight.data(), norm.epsilon, row, x.columns);
            if (quantised_) kernels.quantise_row(row, x.columns, blocks + i * n_blocks);
        }
    });
    return {rows, blocks, x.columns};
}

void LinearWeights::multiply(const Kernels& kernels, const Activations& in, size_t index, Range rows, Range panels,
                             float* out, int64_t out_stride, bool accumulate) const {
    const PackedWeights& weights = weights_[index];
    const Activations from_first_row{in.x + rows.begin * in.width,
                                     in.blocks == nullptr ? nullptr : in.blocks + rows.begin * (in.width / kBlock),
                                     in.width};
    const PanelTask task{weights.memory.get() + panels.begin * weights.panel_bytes,
                         weights.panel_bytes,
                         panels.size(),
                         std::min(weights.rows, panels.end * kPanelRows) - panels.begin * kPanelRows,
                         from_first_row,
                         0,
                         rows.size(),
                         out,
                         out_stride,
                         accumulate};
    kernels.multiply_panels[static_cast<size_t>(weights.format)](task);
}

void LinearWeights::multiply(const Kernels& kernels, const Activations& in, Range rows, Range panels,
                             std::span<float* const> out, bool accumulate) const {
    int64_t first = 0;  // panel of this weight
    for (size_t i = 0; i < weights_.size() && first < panels.end; first += weights_[i++].n_panels()) {
        const Range here{std::max(panels.begin - first, int64_t{0}),
                         std::min(panels.end - first, weights_[i].n_panels())};
        if (here.begin >= here.end) continue;
        float* corner = out[i] + rows.begin * weights_[i].rows + here.begin * kPanelRows;
        multiply(kernels, in, i, rows, here, corner, weights_[i].rows, accumulate);
    }
}

}  // namespace kvplane::cpu
