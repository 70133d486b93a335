// kvp.rms_norm/1: out = x / sqrt(mean(x^2) + epsilon) * weight, row by row.
#include "op.h"

namespace kvplane::cpu {
namespace {

class RmsNorm final : public kvp_plan {
public:
    RmsNorm(const Matrix<float>& weight, float epsilon)
        : weight_(weight.data, weight.data + weight.rows * weight.columns), epsilon_(epsilon) {}

    void run(kvp_queue& queue, const Operands& operands, const void*) const override {
        operands.expect(2);
        const auto width = static_cast<int64_t>(weight_.size());
        const Matrix<float> x = operands.f32(0, "x");
        if (x.columns != width) invalid("x is not as wide as the norm's weight");
        const Matrix<float> out = operands.f32(1, "out", x.rows, width);
        const Kernels& kernels = queue.device.kernels;
        constexpr int64_t kRowsPerPart = 8;
        queue.device.pool.run_ranges(x.rows, kRowsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
            for (int64_t i = begin; i < end; ++i)
                kernels.rms_norm(x.row(i), weight_.data(), epsilon_, out.row(i), width);
        });
    }

private:
    const std::vector<float> weight_;
    const float epsilon_;
};

uint64_t check(const Device&, const Request& request) {
    request.expect_constants(1);
    request.attributes<kvp_norm_attributes>();
    f32_matrix(request.constant(0), "the norm's weight");
    return 0;
}

std::unique_ptr<kvp_plan> prepare(Device&, const Request& request) {
    return std::make_unique<RmsNorm>(f32_matrix(request.constant(0), "the norm's weight"),
                                     request.attributes<kvp_norm_attributes>().epsilon);
}

}  // namespace

const Operation kRmsNorm = {"kvp.rms_norm/1", check, prepare};

}  // namespace kvplane::cpu
