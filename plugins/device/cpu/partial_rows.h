// How partial keys lie: [kv_head][capacity] rows of n_columns values (ops.h).
#pragma once

#include <cstdint>

#include "error.h"
#include "kvplane/ops.h"

namespace kvplane::cpu {

constexpr int64_t kMostPartialColumns = 512;

struct PartialRows {
    PartialRows(kvp_address keys, uint64_t capacity, uint32_t type, uint32_t n_columns)
        : base(reinterpret_cast<uint8_t*>(keys)), capacity(static_cast<int64_t>(capacity)), type(type) {
        if (keys == 0) invalid("the partial keys have no memory");
        if (n_columns == 0 || n_columns > kMostPartialColumns) invalid("partial keys have 1 to 512 columns");
        switch (type) {
            case KVP_TYPE_F32: bytes = 4 * static_cast<int64_t>(n_columns); break;
            case KVP_TYPE_F16: bytes = 2 * static_cast<int64_t>(n_columns); break;
            case KVP_TYPE_I8: bytes = n_columns; break;
            case KVP_TYPE_I4:
                if (n_columns % 2 != 0) invalid("4-bit partial keys need an even number of columns");
                bytes = n_columns / 2;
                break;
            default: unsupported("partial keys are f32, f16, i8 or i4");
        }
    }

    uint8_t* row(int64_t kv_head, int64_t token) const { return base + (kv_head * capacity + token) * bytes; }

    uint8_t* base;
    int64_t capacity;
    uint32_t type;
    int64_t bytes;  // a row
};

}  // namespace kvplane::cpu
