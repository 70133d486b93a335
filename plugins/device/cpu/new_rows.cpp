#include "new_rows.h"

#include <algorithm>
#include <cstring>

namespace kvplane::cpu {

NewRows::NewRows(kvp_queue& queue, const void* pointer, int64_t n_rows, int64_t width)
    : kernels_(queue.device.kernels) {
    const auto& arguments = structure<kvp_kv_write_arguments>(pointer, "the argument struct of kv_write");
    if (arguments.n_items > 0 && arguments.items == nullptr) invalid("kv_write has no items");
    for (uint32_t i = 0; i < arguments.n_items; ++i) {
        const auto& item = structure<kvp_kv_write_item>(arguments.items[i], "an item of kv_write");
        const CachedRows rows(item.rows);
        if (i == 0) {
            n_kv_heads_ = rows.n_kv_heads();
            layout_ = rows.layout();
            if (width != n_kv_heads_ * layout_.head_size) invalid("k is not as wide as the cached KV heads");
            places_ = queue.workspace.places.get(n_rows * n_kv_heads_);
            std::fill_n(places_, n_rows * n_kv_heads_, nullptr);
        }
        if (rows.n_kv_heads() != n_kv_heads_ || rows.head_size() != layout_.head_size || rows.type() != layout_.type) {
            invalid("the items of kv_write have different kinds of cached rows");
        }
        if (item.row_begin < 0 || item.n_rows < 0 || item.n_rows > n_rows - item.row_begin || item.token_begin < 0) {
            invalid("an item of kv_write names rows outside k");
        }
        for (int64_t row = 0; row < item.n_rows; ++row) {
            for (int64_t head = 0; head < n_kv_heads_; ++head) {
                places_[(item.row_begin + row) * n_kv_heads_ + head] = rows.existing_row(head, item.token_begin + row);
            }
        }
    }
}

void NewRows::write(int64_t row, int64_t head, const float* values, bool is_value) const {
    uint8_t* place = places_ == nullptr ? nullptr : places_[row * n_kv_heads_ + head];
    if (place == nullptr) return;
    const int64_t d = layout_.head_size;
    uint8_t* out = place + (is_value ? layout_.value() : 0);
    switch (layout_.type) {
        case RowType::F32: std::memcpy(out, values, static_cast<size_t>(d) * sizeof(float)); return;
        case RowType::F16: kernels_.to_f16(values, reinterpret_cast<uint16_t*>(out), d); return;
        case RowType::I8: {
            const uint16_t scale = kernels_.to_int8(values, reinterpret_cast<int8_t*>(out), d);
            std::memcpy(place + (is_value ? layout_.value_scale() : layout_.key_scale()), &scale, sizeof scale);
            return;
        }
        case RowType::BF16: kernels_.to_bf16(values, reinterpret_cast<uint16_t*>(out), d); return;
        case RowType::I8Groups:
        case RowType::I4Groups: {
            auto* scales = place + (is_value ? layout_.value_scale() : layout_.key_scale());
            kernels_.to_groups(layout_.type, values, out, reinterpret_cast<uint16_t*>(scales), d);
            return;
        }
    }
}

}  // namespace kvplane::cpu
