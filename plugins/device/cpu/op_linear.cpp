// kvp.linear/1: several products of one input, in one parallel region. The input goes to int8 once.
#include <algorithm>

#include "op.h"
#include "packed_weights.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kRowsPerPart = 256;  // of activations: they stay in L2 while the panels of a part pass by

class Linear final : public kvp_plan {
public:
    Linear(std::vector<PackedWeights> weights, bool accumulate)
        : weights_(std::move(weights)), accumulate_(accumulate) {
        for (const PackedWeights& weights : weights_) {
            n_panels_ += weights.n_panels();
            quantised_ = quantised_ || is_quantised(weights.format);
        }
    }

    void run(kvp_queue& queue, const Operands& operands, const void*) const override {
        operands.expect(static_cast<uint32_t>(weights_.size()) + 1);
        const Matrix<float> x = operands.f32(0, "x");
        if (x.columns != weights_.front().width) {
            invalid("x is " + std::to_string(x.columns) + " wide and the weights " +
                    std::to_string(weights_.front().width));
        }
        std::vector<float*> out(weights_.size());
        for (size_t i = 0; i < weights_.size(); ++i) {
            out[i] = operands.f32(static_cast<uint32_t>(i) + 1, "out", x.rows, weights_[i].rows).data;
        }
        const Activations in = activations(queue, x);
        ThreadPool& pool = queue.device.pool;
        const int64_t n_row_parts = (x.rows + kRowsPerPart - 1) / kRowsPerPart;
        const int64_t wanted = pool.n_threads() == 1 ? 1 : pool.n_threads() * ThreadPool::kPartsPerThread;
        const int64_t panels_a_part = std::max<int64_t>(1, ((n_panels_ + wanted - 1) / wanted + 1) / 2 * 2);
        const int64_t n_panel_parts = (n_panels_ + panels_a_part - 1) / panels_a_part;
        pool.run(n_row_parts * n_panel_parts, [&](int64_t part, uint32_t) {
            const int64_t row = part / n_panel_parts * kRowsPerPart;
            const int64_t panel = part % n_panel_parts * panels_a_part;
            multiply(queue.device.kernels, in, out, row, std::min(x.rows, row + kRowsPerPart), panel,
                     std::min(n_panels_, panel + panels_a_part));
        });
    }

private:
    Activations activations(kvp_queue& queue, const Matrix<float>& x) const {
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

    // Panels [begin, end) counted over all weights, for rows [row_begin, row_end).
    void multiply(const Kernels& kernels, const Activations& in, const std::vector<float*>& out, int64_t row_begin,
                  int64_t row_end, int64_t begin, int64_t end) const {
        int64_t first = 0;  // of this weight
        for (size_t i = 0; i < weights_.size() && first < end; first += weights_[i++].n_panels()) {
            const PackedWeights& weights = weights_[i];
            const int64_t from = std::max(begin - first, int64_t{0});
            const int64_t to = std::min(end - first, weights.n_panels());
            if (from >= to) continue;
            const PanelTask task{weights.memory.get() + from * weights.panel_bytes,
                                 weights.panel_bytes,
                                 to - from,
                                 std::min(weights.rows, to * kPanelRows) - from * kPanelRows,
                                 in,
                                 row_begin,
                                 row_end,
                                 out[i] + from * kPanelRows,
                                 weights.rows,
                                 accumulate_};
            kernels.multiply_panels[static_cast<size_t>(weights.format)](task);
        }
    }

    const std::vector<PackedWeights> weights_;
    const bool accumulate_;
    int64_t n_panels_ = 0;
    bool quantised_ = false;
};

PanelFormat packed_format(const Weights& weights, const Request& request) {
    return request.attributes<kvp_linear_attributes>().exact_f32 != 0 ? PanelFormat::F32 : weights.format;
}

uint64_t check(const Device&, const Request& request) {
    request.attributes<kvp_linear_attributes>();
    if (request.n_constants() == 0) invalid("the op takes at least one weight");
    uint64_t bytes = 0;
    const int64_t width = weights_of(request.constant(0), "weight 0").columns;
    for (uint32_t i = 0; i < request.n_constants(); ++i) {
        const std::string name = "weight " + std::to_string(i);
        const Weights weights = weights_of(request.constant(i), name.c_str());
        if (weights.columns != width) invalid(name + " is not as wide as weight 0");
        bytes += packed_bytes(packed_format(weights, request), weights.rows, weights.columns);
    }
    return bytes;
}

std::unique_ptr<kvp_plan> prepare(Device& device, const Request& request) {
    std::vector<PackedWeights> packed;
    for (uint32_t i = 0; i < request.n_constants(); ++i) {
        const Weights weights = weights_of(request.constant(i), "weight");
        packed.push_back(pack(weights, packed_format(weights, request), device.pool));
    }
    return std::make_unique<Linear>(std::move(packed), request.attributes<kvp_linear_attributes>().accumulate != 0);
}

}  // namespace

const Operation kLinear = {"kvp.linear/1", check, prepare};

}  // namespace kvplane::cpu
