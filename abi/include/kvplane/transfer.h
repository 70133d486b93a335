/* Transfer kind: moves bytes between two memories. It knows neither models nor strategies. get_kind("transfer").
 * A batch is a list of equal-sized pieces, so that one call serves a whole page, a gather of scattered groups and a
 * scatter alike. Required: every member but those marked optional. Thread-safe unless said. */
#ifndef KVPLANE_TRANSFER_H_
#define KVPLANE_TRANSFER_H_

#include "event.h"

typedef struct kvp_transfer_engine kvp_transfer_engine; /* the plugin's */
typedef struct kvp_transfer_memory kvp_transfer_memory; /* a registered memory or file, the plugin's */

/* What a memory is. For DEVICE and host tiers `base` is where it starts; for DISK `path` names the file. */
typedef struct kvp_transfer_region {
    kvp_head head;
    uint32_t tier; /* KVP_TIER_* */
    uint32_t device_index;
    kvp_address base;
    uint64_t n_bytes;
    kvp_str path;
} kvp_transfer_region;

/* A pair of tiers that the engine serves, and how. */
enum { KVP_PATH_DIRECT = 1, KVP_PATH_STAGED = 2, KVP_PATH_KERNEL = 3, KVP_PATH_SIMULATED = 4 };

typedef struct kvp_transfer_pair {
    kvp_head head;
    uint32_t from_tier;
    uint32_t to_tier;
    uint32_t path; /* KVP_PATH_* */
    uint32_t alignment_bytes;
    uint64_t max_piece_bytes; /* 0: no limit */
    uint32_t max_pieces;      /* a batch; 0: no limit */
    uint32_t max_batches;     /* in flight; 0: no limit */
} kvp_transfer_pair;

/* Foreground work is what a step waits for now. */
enum { KVP_PRIORITY_FOREGROUND = 1, KVP_PRIORITY_PREFETCH = 2, KVP_PRIORITY_STORE = 3 };

/* n_pieces copies of piece_bytes from (from, from_offsets[i]) to (to, to_offsets[i]). Offsets are relative to the region.
 * Starts after `after`, and raises `then` when every piece is done; both may be empty. */
typedef struct kvp_transfer_batch {
    kvp_head head;
    kvp_transfer_memory* from;
    kvp_transfer_memory* to;
    const uint64_t* from_offsets;
    const uint64_t* to_offsets;
    uint64_t piece_bytes;
    uint32_t n_pieces;
    uint32_t priority;
    uint64_t tag; /* the caller's, comes back in the record */
    kvp_event_point after;
    kvp_event_point then;
    uint64_t deadline_ns; /* host clock; 0: none */
} kvp_transfer_batch;

enum { KVP_TRANSFER_DONE = 1, KVP_TRANSFER_SHORT = 2, KVP_TRANSFER_FAILED = 3, KVP_TRANSFER_CANCELLED = 4 };

/* How a batch ended. Not DONE: pieces from first_bad on may hold anything. */
typedef struct kvp_transfer_record {
    kvp_head head;
    uint64_t tag;
    uint32_t state; /* KVP_TRANSFER_* */
    int32_t error;  /* errno, or the driver's code */
    uint32_t path;  /* KVP_PATH_* that was really taken */
    uint32_t first_bad;
    uint64_t n_bytes; /* moved */
    uint64_t start_ns;
    uint64_t end_ns;
} kvp_transfer_record;

typedef struct kvp_transfer {
    kvp_head head;

    /* Describes pair `index`; KVP_NOT_FOUND after the last.
     * thread: any
     * blocks: no
     * owns: pair is the caller's
     * since: 1.0 */
    kvp_status (*pair)(uint32_t index, kvp_transfer_pair* pair);

    /* Makes an engine. close drains first; nothing may be registered any more.
     * thread: init
     * blocks: yes
     * owns: open moves the engine to the caller, close takes it back
     * since: 1.0 */
    kvp_status (*open)(kvp_transfer_engine** engine);
    void (*close)(kvp_transfer_engine* engine);

    /* Makes a memory known. remove_memory while a batch uses it is KVP_AGAIN.
     * thread: any
     * blocks: yes
     * owns: the bytes stay the caller's, until remove_memory
     * since: 1.0 */
    kvp_status (*add_memory)(kvp_transfer_engine* engine, const kvp_transfer_region* region,
                             kvp_transfer_memory** memory);
    kvp_status (*remove_memory)(kvp_transfer_engine* engine, kvp_transfer_memory* memory);

    /* Takes a batch whole or not at all; KVP_AGAIN when too many are in flight. Every accepted batch ends in a record.
     * thread: any
     * blocks: no
     * owns: batch and its lists borrowed for the call; source and target bytes until the record
     * since: 1.0 */
    kvp_status (*submit)(kvp_transfer_engine* engine, const kvp_transfer_batch* batch);

    /* Fetches up to n_records records of ended batches; records[i]->head.struct_size is the caller's. KVP_OK with none
     * when the time is up; KVP_STOPPED when the process ends. A batch counts as in flight until its record was fetched.
     * thread: any
     * blocks: up to timeout_ns when none is there, 0: not at all
     * owns: records are the caller's
     * since: 1.0 */
    kvp_status (*poll)(kvp_transfer_engine* engine, kvp_transfer_record* const* records, uint32_t n_records,
                       uint64_t timeout_ns, uint32_t* n_filled);

    /* Asks that a batch not start. It still ends in a record. Optional.
     * thread: any
     * blocks: no
     * owns: nothing
     * since: 1.0 */
    kvp_status (*cancel)(kvp_transfer_engine* engine, uint64_t tag);

    /* Estimated time of n_pieces of piece_bytes between two tiers. Optional.
     * thread: any
     * blocks: no
     * owns: nothing
     * since: 1.0 */
    kvp_status (*estimate)(kvp_transfer_engine* engine, uint32_t from_tier, uint32_t to_tier, uint64_t piece_bytes,
                           uint32_t n_pieces, uint64_t* ns);
} kvp_transfer;

#endif /* KVPLANE_TRANSFER_H_ */
