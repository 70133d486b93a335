// kvp.linear/1: several products of one input, in one parallel region. The input goes to int8 once.
#include <algorithm>

#include "linear_weights.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kRowsPerPart = 256;  // of activations: they stay in L2 while the panels of a part pass by

class Linear final : public kvp_plan {
public:
    Linear(LinearWeights weights, bool accumulate) : weights_(std::move(weights)), accumulate_(accumulate) {}

    void run(kvp_queue& queue, const Operands& operands, const void*) const override {
        operands.expect(static_cast<uint32_t>(weights_.size()) + 1);
        const Matrix<float> x = operands.f32(0, "x");
        const Activations in = weights_.activations(queue, x);
        std::vector<float*> out(weights_.size());
        for (size_t i = 0; i < weights_.size(); ++i) {
            out[i] = operands.f32(static_cast<uint32_t>(i) + 1, "out", x.rows, weights_.rows(i)).data;
        }
        ThreadPool& pool = queue.device.pool;
        const int64_t n_panels = weights_.n_panels();
        const int64_t n_row_parts = (x.rows + kRowsPerPart - 1) / kRowsPerPart;
        const int64_t wanted = pool.n_threads() == 1 ? 1 : pool.n_threads() * ThreadPool::kPartsPerThread;
        const int64_t panels_a_part = std::max<int64_t>(1, ((n_panels + wanted - 1) / wanted + 1) / 2 * 2);
        const int64_t n_panel_parts = (n_panels + panels_a_part - 1) / panels_a_part;
        pool.run(n_row_parts * n_panel_parts, [&](int64_t part, uint32_t) {
            const int64_t row = part / n_panel_parts * kRowsPerPart;
            const int64_t panel = part % n_panel_parts * panels_a_part;
            const Block block{row, std::min(x.rows, row + kRowsPerPart), panel,
                              std::min(n_panels, panel + panels_a_part)};
            weights_.multiply(queue.device.kernels, in, out, block, accumulate_);
        });
    }

private:
    const LinearWeights weights_;
    const bool accumulate_;
};

uint64_t check(const Device&, const Request& request) {
    const auto& attributes = request.attributes<kvp_linear_attributes>();
    if (request.n_constants() == 0) invalid("the op takes at least one weight");
    return LinearWeights::check(request, 0, request.n_constants(), attributes.exact_f32 != 0);
}

std::unique_ptr<kvp_plan> prepare(Device& device, const Request& request) {
    const auto& attributes = request.attributes<kvp_linear_attributes>();
    LinearWeights weights(request, 0, request.n_constants(), attributes.exact_f32 != 0, device.pool);
    return std::make_unique<Linear>(std::move(weights), attributes.accumulate != 0);
}

}  // namespace

const Operation kLinear = {"kvp.linear/1", check, prepare};

}  // namespace kvplane::cpu
