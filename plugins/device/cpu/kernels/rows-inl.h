// Rows K||V as they lie in the cache, and rows of results.
#pragma once

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

// Asks for a row of the next block at each even row of this one, into L2: the L1 cache is full of this block.
HWY_INLINE void prefetch_next(const Rows& rows, int64_t row) {
    if (rows.next == nullptr || row % 2 != 0) return;
    const auto* begin = reinterpret_cast<const char*>(rows.next[row / 2]);
    for (int64_t at = 0; at < rows.next_bytes; at += 64) _mm_prefetch(begin + at, _MM_HINT_T1);
    _mm_prefetch(begin + rows.next_bytes - 1, _MM_HINT_T1);  // a row may begin inside a line
}

// A width that the compiler knows, for the head sizes that most models have.
template <int64_t kValue>
struct Width {
    constexpr operator int64_t() const { return kValue; }
};
template <typename Body>
HWY_INLINE void with_width(int64_t width, const Body& body) {
    width == 64 ? body(Width<64>()) : width == 128 ? body(Width<128>()) : body(width);
}

template <typename T>
HWY_INLINE const T* row_at(const Rows& rows, int64_t row) {
    return reinterpret_cast<const T*>(rows.at[row] + rows.offset);
}

HWY_INLINE uint16_t row_scale_bits(const Rows& rows, int64_t row) {
    uint16_t bits;
    memcpy(&bits, rows.at[row] + rows.scale, sizeof bits);
    return bits;
}

// Elements of one row as they are; those of an int8 row times the f16 that stands `scale` bytes from its begin.
template <typename T>
struct RowReader {
    HWY_INLINE RowReader(const Rows& rows, int64_t row, int64_t) : elements(row_at<T>(rows, row)) {}
    HWY_INLINE F at(int64_t i) const { return load(elements + i); }
    const T* elements;
};
template <>
struct RowReader<int8_t> {
    HWY_INLINE RowReader(const Rows& rows, int64_t row, int64_t scale) : elements(row_at<int8_t>(rows, row)) {
        uint16_t bits;
        memcpy(&bits, rows.at[row] + scale, sizeof bits);
        factor = half_to_float(bits);
    }
    HWY_INLINE F at(int64_t i) const { return hn::Mul(load(elements + i), set(factor)); }
    const int8_t* elements;
    float factor;
};

HWY_INLINE void scale_row(float* row, float factor, int64_t width) {
    for (int64_t i = 0; i < width; i += kLanes) store(hn::Mul(load(row + i), set(factor)), row + i);
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
