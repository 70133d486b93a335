// SDK, codec: a codec of rows that are encoded each alone, from what it makes of one row.
//
//   struct Mine {
//       static constexpr uint32_t row_type = KVP_TYPE_I8;
//       static void encode(uint32_t head_size, const uint16_t* row, uint8_t* encoded);   // K||V, f16
//       static void decode(uint32_t head_size, const uint8_t* encoded, uint16_t* row);
//   };
//   constexpr auto table = kvp::row_codec<Mine>();
#pragma once

#include "kvplane/codec.h"
#include "kvplane/ops.h"
#include "kvplane/sdk/base.hpp"
#include "kvplane/sdk/half.hpp"

namespace kvp {

template <class Row>
constexpr kvp_codec row_codec() {
    auto made = make<kvp_codec>();
    made.info = [](uint32_t, kvp_codec_info* info) -> kvp_status {
        info->row_type = Row::row_type;
        info->block_tokens = 1;
        info->summary = str(Row::summary);
        return KVP_OK;
    };
    made.encode = [](uint32_t head_size, uint64_t n_tokens, const uint16_t* rows, void* encoded) -> kvp_status {
        auto* bytes = static_cast<uint8_t*>(encoded);
        for (uint64_t i = 0; i < n_tokens; i++) {
            Row::encode(head_size, rows + i * 2 * head_size, bytes + i * kvp_row_bytes(Row::row_type, head_size));
        }
        return KVP_OK;
    };
    made.decode = [](uint32_t head_size, uint64_t n_tokens, const void* encoded, uint16_t* rows) -> kvp_status {
        const auto* bytes = static_cast<const uint8_t*>(encoded);
        for (uint64_t i = 0; i < n_tokens; i++) {
            Row::decode(head_size, bytes + i * kvp_row_bytes(Row::row_type, head_size), rows + i * 2 * head_size);
        }
        return KVP_OK;
    };
    made.encoded_bytes = [](uint32_t head_size, uint64_t n_tokens) -> uint64_t {
        return n_tokens * kvp_row_bytes(Row::row_type, head_size);
    };
    return made;
}

}  // namespace kvp
