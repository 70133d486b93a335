// kvp.embed/1: rows of the table by token id.
#include "op.h"
#include "weights.h"

namespace kvplane::cpu {
namespace {

class Embed final : public kvp_plan {
public:
    explicit Embed(const Weights& weights) : weights_(weights) {}

    void run(kvp_queue& queue, const Operands& operands, const void*) const override {
        operands.expect(2);
        const Matrix<float> out = operands.f32(1, "out");
        if (out.columns != weights_.columns) invalid("out is not as wide as the embedding");
        const int32_t* ids = operands.i32(0, "ids", out.rows);
        for (int64_t i = 0; i < out.rows; ++i) {
            if (ids[i] < 0 || ids[i] >= weights_.rows) {
                invalid("token id " + std::to_string(ids[i]) + " is outside the vocabulary of " +
                        std::to_string(weights_.rows));
            }
        }
        constexpr int64_t kRowsPerPart = 8;
        queue.device.pool.run_ranges(out.rows, kRowsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
            for (int64_t i = begin; i < end; ++i) decode_row(weights_, ids[i], out.row(i));
        });
    }

private:
    const Weights weights_;
};

uint64_t check(const Device&, const Request& request) {
    request.expect_constants(1);
    weights_of(request.constant(0), "the embedding");
    return 0;
}

std::unique_ptr<kvp_plan> prepare(Device&, const Request& request) {
    return std::make_unique<Embed>(weights_of(request.constant(0), "the embedding"));
}

}  // namespace

const Operation kEmbed = {"kvp.embed/1", check, prepare};

}  // namespace kvplane::cpu
