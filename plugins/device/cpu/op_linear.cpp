// kvp.linear/1: several products of one input, in one parallel region. The input goes to int8 once.
#include "linear_weights.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

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
        constexpr int64_t kGrain = 2;  // panels: a kernel reads two at a time
        run_parts(queue.device.pool, x.rows, weights_.n_panels(), kGrain, [&](Range rows, Range panels, uint32_t) {
            weights_.multiply(queue.device.kernels, in, rows, panels, out, accumulate_);
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
    LinearWeights weights(request, 0, request.n_constants(), attributes.exact_f32 != 0, device);
    return std::make_unique<Linear>(std::move(weights), attributes.accumulate != 0);
}

}  // namespace

const Operation kLinear = {"kvp.linear/1", check, prepare};

}  // namespace kvplane::cpu
