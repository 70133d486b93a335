// kvp.kv_write/1: new keys and values into their cached rows.
#include "new_rows.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

void run(kvp_queue& queue, const Operands& operands, const void* arguments) {
    operands.expect(2);
    const Matrix<float> k = operands.f32(0, "k");
    const Matrix<float> v = operands.f32(1, "v", k.rows, k.columns);
    const NewRows rows(queue, arguments, k.rows, k.columns);
    const int64_t d = rows.head_size();
    constexpr int64_t kRowsPerPart = 16;
    queue.device.pool.run_ranges(k.rows, kRowsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
        for (int64_t row = begin; row < end; ++row) {
            for (int64_t head = 0; head < rows.n_kv_heads(); ++head) {
                rows.write_key(row, head, k.row(row) + head * d);
                rows.write_value(row, head, v.row(row) + head * d);
            }
        }
    });
}

}  // namespace

const Operation kKvWrite = plain_operation<run>("kvp.kv_write/1");

}  // namespace kvplane::cpu
