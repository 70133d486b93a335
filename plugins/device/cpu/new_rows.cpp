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
            head_size_ = rows.head_size();
            type_ = rows.type();
            if (width != n_kv_heads_ * head_size_) invalid("k is not as wide as the cached KV heads");
            places_ = queue.workspace.places.get(n_rows * n_kv_heads_);
            std::fill_n(places_, n_rows * n_kv_heads_, nullptr);
        }
        if (rows.n_kv_heads() != n_kv_heads_ || rows.head_size() != head_size_ || rows.type() != type_) {
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

void NewRows::write(int64_t row, int64_t head, const float* values, int64_t offset) const {
    uint8_t* place = places_ == nullptr ? nullptr : places_[row * n_kv_heads_ + head];
    if (place == nullptr) return;
    if (type_ == RowType::F16) {
        kernels_.to_f16(values, reinterpret_cast<uint16_t*>(place) + offset, head_size_);
    } else {
        std::memcpy(reinterpret_cast<float*>(place) + offset, values, static_cast<size_t>(head_size_) * sizeof(float));
    }
}

}  // namespace kvplane::cpu
