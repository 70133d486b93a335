// What partial keys are made of: a projection of keys and queries, or only some of their columns.
#pragma once

#include <cstdint>

#include "error.h"
#include "kernels/kernels.h"
#include "kvplane/base.h"

namespace kvplane::cpu {

class Projection {
public:
    Projection(kvp_address projection, kvp_address columns, int64_t head_size, int64_t n_columns, int64_t n_heads)
        : projection_(reinterpret_cast<const float*>(projection)),
          columns_(reinterpret_cast<const int32_t*>(columns)),
          d_(head_size),
          n_(n_columns) {
        if (projection_ != nullptr) return;
        if (columns_ == nullptr) invalid("partial keys have neither a projection nor columns");
        for (int64_t i = 0; i < n_heads * n_; ++i) {
            if (columns_[i] >= d_) invalid("partial keys name a column outside the head");
        }
    }

    // out[n_rows][n_columns] of x[n_rows][head_size], of KV head `head`.
    void apply(const Kernels& kernels, int64_t head, const float* x, int64_t n_rows, float* out) const {
        if (projection_ != nullptr) {
            kernels.multiply(x, d_, 1, projection_ + head * d_ * n_, n_, out, n_, n_rows, d_, n_, false);
            return;
        }
        const int32_t* columns = columns_ + head * n_;
        for (int64_t row = 0; row < n_rows; ++row) {
            for (int64_t i = 0; i < n_; ++i) out[row * n_ + i] = columns[i] < 0 ? 0.0f : x[row * d_ + columns[i]];
        }
    }

private:
    const float* projection_;  // [n_heads][head_size][n_columns]
    const int32_t* columns_;   // [n_heads][n_columns]
    int64_t d_;
    int64_t n_;
};

}  // namespace kvplane::cpu
