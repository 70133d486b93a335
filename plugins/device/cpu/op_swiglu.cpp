// kvp.swiglu/1: out = gate / (1 + exp(-gate)) * up.
#include "op.h"

namespace kvplane::cpu {
namespace {

void run(kvp_queue& queue, const Operands& operands, const void*) {
    operands.expect(3);
    const Matrix<float> gate = operands.f32(0, "gate");
    const Matrix<float> up = operands.f32(1, "up", gate.rows, gate.columns);
    const Matrix<float> out = operands.f32(2, "out", gate.rows, gate.columns);
    const Kernels& kernels = queue.device.kernels;
    constexpr int64_t kElementsPerPart = 4096;
    queue.device.pool.run_ranges(gate.rows * gate.columns, kElementsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
        kernels.swiglu(gate.data + begin, up.data + begin, out.data + begin, end - begin);
    });
}

}  // namespace

const Operation kSwiglu = plain_operation<run>("kvp.swiglu/1");

}  // namespace kvplane::cpu
