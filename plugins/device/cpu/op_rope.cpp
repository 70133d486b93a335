// kvp.rope/1: rotates pairs of each head by position * frequency, in place.
#include "op.h"
#include "rotation.h"

namespace kvplane::cpu {
namespace {

class Rope final : public kvp_plan {
public:
    explicit Rope(Rotation rotation) : rotation_(std::move(rotation)) {}

    void run(kvp_queue& queue, const Operands& operands, const void*) const override {
        operands.expect(2);
        const Matrix<float> x = operands.f32(0, "x");
        const int64_t d = rotation_.head_size();
        if (x.columns % d != 0) invalid("x is not a whole number of heads wide");
        const RotationTable& table = rotation_.table(queue, operands.i32(1, "positions", x.rows), x.rows);
        constexpr int64_t kRowsPerPart = 8;
        queue.device.pool.run_ranges(x.rows, kRowsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
            for (int64_t row = begin; row < end; ++row) {
                for (int64_t head = 0; head < x.columns; head += d) {
                    rotation_.rotate(queue.device.kernels, table, row, x.row(row) + head);
                }
            }
        });
    }

private:
    const Rotation rotation_;
};

uint64_t check(const Device&, const Request& request) {
    request.expect_constants(1);
    Rotation::check(request.attributes<kvp_rope_attributes>(), request.constant(0));
    return 0;
}

std::unique_ptr<kvp_plan> prepare(Device&, const Request& request) {
    return std::make_unique<Rope>(Rotation(request.attributes<kvp_rope_attributes>(), request.constant(0)));
}

}  // namespace

const Operation kRope = {"kvp.rope/1", check, prepare};

}  // namespace kvplane::cpu
