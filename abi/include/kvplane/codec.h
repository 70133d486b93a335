/* Codec kind: what cached rows are made of, in every tier. get_kind("codec").
 *
 * A codec encodes the rows K||V of one KV head, each alone or some tokens together (a block). Its bytes are what pages,
 * tiers and transfers hold. Where they are a row type of ops.h that the device knows, the device writes and reads them
 * itself. Where they are not, the core keeps new rows as f16 beside the pages until they are encoded, and decodes the
 * blocks that attention names; the functions below do that on the host, whatever the device is. */
#ifndef KVPLANE_CODEC_H_
#define KVPLANE_CODEC_H_

#include "base.h"

typedef struct kvp_codec_info {
    kvp_head head;
    uint32_t row_type;       /* KVP_TYPE_* of kvp_rows whose bytes these are; 0: none */
    uint32_t block_tokens;   /* tokens that are encoded together: 1, or what divides a page */
    uint32_t recent_tokens;  /* at least so many of the newest stay f16 */
    uint32_t reads_own_step; /* 1: a step's rows are read as f16 in that step and encoded after it; must be 1 where
                              * block_tokens > 1 or recent_tokens > 0. 0: what is stored is what is read */
    kvp_str summary;         /* for reports */
} kvp_codec_info;

typedef struct kvp_codec {
    kvp_head head;

    /* Describes the codec for one head size, with the options of the pipeline; KVP_UNSUPPORTED, with a reason, when it
     * cannot encode such rows.
     * thread: any
     * blocks: no
     * owns: info is the caller's, strings the plugin's
     * since: 1.0 */
    kvp_status (*info)(uint32_t head_size, kvp_codec_info* info);

    /* Rows K||V, f16[n_tokens][2 * head_size], to encoded ones and back. n_tokens is a multiple of block_tokens.
     * thread: any
     * blocks: no
     * owns: host memory, borrowed
     * since: 1.0 */
    kvp_status (*encode)(uint32_t head_size, uint64_t n_tokens, const uint16_t* rows, void* encoded);
    kvp_status (*decode)(uint32_t head_size, uint64_t n_tokens, const void* encoded, uint16_t* rows);

    /* Bytes of n_tokens encoded rows of one KV head, in proportion to n_tokens.
     * thread: any
     * blocks: no
     * owns: nothing
     * since: 1.0 */
    uint64_t (*encoded_bytes)(uint32_t head_size, uint64_t n_tokens);
} kvp_codec;

#endif /* KVPLANE_CODEC_H_ */
