// Rows K||V as they lie in the cache, and rows of results.
#pragma once

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

// Asks for what the next block has at this place.
template <typename T>
HWY_INLINE void prefetch_next(const Rows& rows, int64_t row, int64_t width) {
    if (row >= rows.n_next) return;
    const uint8_t* begin = rows.next[row] + rows.offset;
    for (int64_t at = 0; at < width * static_cast<int64_t>(sizeof(T)); at += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(begin + at), _MM_HINT_T0);
    }
}

template <typename T>
HWY_INLINE const T* row_at(const Rows& rows, int64_t row) {
    return reinterpret_cast<const T*>(rows.at[row] + rows.offset);
}

HWY_INLINE void scale_row(float* row, float factor, int64_t width) {
    for (int64_t i = 0; i < width; i += kLanes) store(hn::Mul(load(row + i), set(factor)), row + i);
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
