// Cached rows in f32, for ops that do arithmetic of their own on them.
#pragma once

#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

template <typename T>
void widen_typed(const Rows& rows, int64_t width, float* out) {
    for (int64_t row = 0; row < rows.n; ++row) {
        const RowReader<T> reader(rows, row, rows.scale);
        for (int64_t i = 0; i < width; i += kLanes) store(reader.at(i), out + row * width + i);
    }
}

void widen_rows(RowType type, const Rows& rows, int64_t width, float* out) {
    const auto run = type == RowType::F32   ? widen_typed<float>
                     : type == RowType::F16 ? widen_typed<hwy::float16_t>
                                            : widen_typed<int8_t>;
    run(rows, width, out);
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
