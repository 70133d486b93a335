// kvp.turned_rows/1: cached rows as virtual ones, their keys turned to other positions. They are always made from the
// cached rows, so rounding does not add up however often they are turned.
#include <algorithm>

#include "cached_rows.h"
#include "op.h"
#include "rotation.h"

namespace kvplane::cpu {
namespace {

class TurnedRows final : public kvp_plan {
public:
    explicit TurnedRows(Rotation rotation) : rotation_(std::move(rotation)) {}

    void run(kvp_queue& queue, const Operands& operands, const void* pointer) const override {
        operands.expect(0);
        const auto& a = structure<kvp_turned_rows_arguments>(pointer, "the argument struct of turned_rows");
        const CachedRows cached(a.rows);
        const int64_t n = a.token_end - a.token_begin;
        if (cached.head_size() != rotation_.head_size()) invalid("turned_rows was prepared for another head size");
        if (a.token_begin < 0 || n < 0 || static_cast<uint64_t>(n) > a.stride || (n > 0 && a.virtual_rows == 0)) {
            invalid("turned_rows names a wrong range of rows or has no room for it");
        }
        if (a.shift > INT32_MAX || a.shift < INT32_MIN) invalid("turned_rows turns by an impossible distance");
        cached.expect(a.token_begin, a.token_end);
        const int64_t d = cached.head_size();
        const Kernels& kernels = queue.device.kernels;
        const auto shift = static_cast<int32_t>(a.shift);
        const RotationTable& table = rotation_.table(queue, &shift, 1);
        for (int64_t head = 0; head < cached.n_kv_heads(); ++head) {
            for (int64_t i = 0; i < n; ++i) {
                const uint8_t* row = cached.row(head, a.token_begin + i);
                float* out =
                    reinterpret_cast<float*>(a.virtual_rows) + (head * static_cast<int64_t>(a.stride) + i) * 2 * d;
                cached.widen(kernels, &row, 1, out);
                cached.widen(kernels, &row, 1, out + d, true);
                rotation_.rotate(kernels, table, 0, out);
            }
        }
    }

private:
    const Rotation rotation_;
};

kvp_rope_attributes turning(const Request& request) {
    kvp_rope_attributes attributes = request.attributes<kvp_rope_attributes>();
    attributes.magnitude = 1;  // the cached keys have it
    return attributes;
}

uint64_t check(const Device&, const Request& request) {
    request.expect_constants(1);
    Rotation::check(turning(request), request.constant(0));
    return 0;
}

std::unique_ptr<kvp_plan> prepare(Device&, const Request& request) {
    return std::make_unique<TurnedRows>(Rotation(turning(request), request.constant(0)));
}

}  // namespace

const Operation kTurnedRows = {"kvp.turned_rows/1", check, prepare};

}  // namespace kvplane::cpu
