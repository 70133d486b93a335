// kvp.kv_write/1: new keys and values into their cached rows.
#include <cstring>

#include "cached_rows.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

void write_row(const Kernels& kernels, const RowLayout& layout, const float* key, const float* value, uint8_t* out) {
    const int64_t d = layout.head_size;
    switch (layout.type) {
        case RowType::F32:
            std::memcpy(out, key, static_cast<size_t>(d) * sizeof(float));
            std::memcpy(out + layout.value(), value, static_cast<size_t>(d) * sizeof(float));
            return;
        case RowType::F16:
            kernels.to_f16(key, reinterpret_cast<uint16_t*>(out), d);
            kernels.to_f16(value, reinterpret_cast<uint16_t*>(out) + d, d);
            return;
        case RowType::I8: {
            const uint16_t scales[] = {kernels.to_int8(key, reinterpret_cast<int8_t*>(out), d),
                                       kernels.to_int8(value, reinterpret_cast<int8_t*>(out) + d, d)};
            std::memcpy(out + layout.key_scale(), scales, sizeof scales);
            return;
        }
    }
}

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(2);
    const auto& arguments = structure<kvp_kv_write_arguments>(pointer, "the argument struct of kv_write");
    const Matrix<float> k = operands.f32(0, "k");
    const Matrix<float> v = operands.f32(1, "v", k.rows, k.columns);
    if (arguments.n_items > 0 && arguments.items == nullptr) invalid("kv_write has no items");
    for (uint32_t i = 0; i < arguments.n_items; ++i) {
        const auto& item = structure<kvp_kv_write_item>(arguments.items[i], "an item of kv_write");
        const CachedRows rows(item.rows);
        const int64_t d = rows.head_size();
        if (k.columns != rows.n_kv_heads() * d) invalid("k is not as wide as the cached KV heads");
        if (item.row_begin < 0 || item.n_rows < 0 || item.row_begin + item.n_rows > k.rows || item.token_begin < 0) {
            invalid("an item of kv_write names rows outside k");
        }
        rows.expect(item.token_begin, item.token_begin + item.n_rows);
        const Kernels& kernels = queue.device.kernels;
        constexpr int64_t kRowsPerPart = 16;
        queue.device.pool.run_ranges(item.n_rows, kRowsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
            for (int64_t row = begin; row < end; ++row) {
                for (int64_t head = 0; head < rows.n_kv_heads(); ++head) {
                    uint8_t* out = rows.row(head, item.token_begin + row);
                    const float* key = k.row(item.row_begin + row) + head * d;
                    const float* value = v.row(item.row_begin + row) + head * d;
                    write_row(kernels, rows.layout(), key, value, out);
                }
            }
        });
    }
}

}  // namespace

const Operation kKvWrite = plain_operation<run>("kvp.kv_write/1");

}  // namespace kvplane::cpu
