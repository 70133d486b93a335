// Cached rows in f32, for ops that do arithmetic of their own on them.
#pragma once

#include "kernels/groups-inl.h"

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
    switch (type) {
        case RowType::F32: return widen_typed<float>(rows, width, out);
        case RowType::F16: return widen_typed<hwy::float16_t>(rows, width, out);
        case RowType::BF16: return widen_typed<hwy::bfloat16_t>(rows, width, out);
        case RowType::I8: return widen_typed<int8_t>(rows, width, out);
        case RowType::I8Groups: return widen_groups<RowType::I8Groups>(rows, width, out);
        case RowType::I4Groups: return widen_groups<RowType::I4Groups>(rows, width, out);
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
