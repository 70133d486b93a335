// How partial keys lie: [kv_head][capacity / 16] tiles of 16 rows side by side (ops.h).
#pragma once

#include <cstdint>

#include "error.h"
#include "kernels/kernels.h"
#include "kvplane/ops.h"

namespace kvplane::cpu {

struct PartialRows {
    PartialRows(kvp_address keys, uint64_t capacity, uint32_t type, uint32_t n_columns)
        : base(reinterpret_cast<uint8_t*>(keys)), capacity(static_cast<int64_t>(capacity)) {
        if (keys == 0) invalid("the partial keys have no memory");
        if (n_columns == 0 || n_columns > kMostKeyColumns) invalid("partial keys have 1 to 512 columns");
        if (capacity % kKeyTile != 0) invalid("partial keys have room for whole tiles of 16 rows");
        switch (type) {
            case KVP_TYPE_F32: format = KeyFormat::F32; break;
            case KVP_TYPE_F16: format = KeyFormat::F16; break;
            case KVP_TYPE_I8: format = KeyFormat::I8; break;
            case KVP_TYPE_I4: format = KeyFormat::I4; break;
            default: unsupported("partial keys are f32, f16, i8 or i4");
        }
        tile_bytes = key_tile_bytes(format, n_columns);
    }

    bool has_codes() const { return format == KeyFormat::I8 || format == KeyFormat::I4; }
    uint8_t* tiles(int64_t kv_head) const { return base + kv_head * capacity / kKeyTile * tile_bytes; }

    uint8_t* base;
    int64_t capacity;
    KeyFormat format;
    int64_t tile_bytes;
};

}  // namespace kvplane::cpu
