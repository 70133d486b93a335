/* Codec kind: an encoding of cached rows, on its own so that it composes with any strategy. get_kind("codec").
 * The arithmetic of a codec are ops of the device ("kvp.encode.ID/1", "kvp.decode.ID/1"); this table says what they make.
 * No codec plugin ships with this minor; the core stores rows as f16 or f32. */
#ifndef KVPLANE_CODEC_H_
#define KVPLANE_CODEC_H_

#include "base.h"

enum { KVP_AXIS_TOKEN = 1, KVP_AXIS_CHANNEL = 2 };

typedef struct kvp_codec_info {
    kvp_head head;
    kvp_str id;
    uint32_t bits;            /* a value, without scales */
    uint32_t group;           /* values that share a scale */
    uint32_t axis;            /* KVP_AXIS_* along which a group runs */
    uint32_t residual_tokens; /* newest rows that stay as they are (KIVI) */
    uint32_t flush_tokens;    /* rows are encoded this many at a time */
    uint32_t alignment_bytes;
    uint32_t lossy;
    uint32_t in_place_attention; /* attention may read the encoded rows */
} kvp_codec_info;

typedef struct kvp_codec {
    kvp_head head;

    /* Describes the codec for one head size; KVP_UNSUPPORTED when it cannot encode such rows.
     * thread: any
     * blocks: no
     * owns: info is the caller's, strings the plugin's
     * since: 1.0 */
    kvp_status (*info)(uint32_t head_size, kvp_codec_info* info);

    /* Bytes of n_tokens encoded rows of one KV head.
     * thread: any
     * blocks: no
     * owns: nothing
     * since: 1.0 */
    uint64_t (*encoded_bytes)(uint32_t head_size, uint64_t n_tokens);
} kvp_codec;

#endif /* KVPLANE_CODEC_H_ */
