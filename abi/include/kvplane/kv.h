/* KV strategy kind: decides which cached rows attention reads and what is fetched ahead. Get it by get_kind("kv").
 *
 * A strategy is policy only. The core owns every byte of KV, every position, tier, queue and ticket; the strategy declares
 * what it needs, keeps its data in sidecars that the core allocates, and answers hooks with segments and commands through
 * kvp_kv_core. Its arithmetic are ops of the device (ops.h). So it holds no vendor code and runs on every device.
 *
 * Rows and positions: a sequence has `n_cached` rows in a layer's cache. Row r is the r-th token as long as nothing left;
 * with a pool limit (kvp_kv_needs.pool_tokens) new rows take the places of victims, and the count stays at the limit; with
 * keep_rows and drop_pages (kvp_kv_core) the rows that stay move together.
 *
 * One decode step, as hooks are called (architecture.md 5):
 *   step_begin, then for each layer: layer_begin, on_write, attn_plan, attn_done, ffn_begin, [chunk_end, prefill_end]; step_end.
 * All hooks of one instance come on one thread, one at a time. Layer hooks only enqueue: none reads device memory or waits
 * for the device. Required: create, destroy, attn_plan. Others may be NULL. */
#ifndef KVPLANE_KV_H_
#define KVPLANE_KV_H_

#include "device.h"

typedef struct kvp_kv_instance kvp_kv_instance; /* the strategy's, one per model */
typedef struct kvp_kv_state kvp_kv_state;       /* the strategy's, one per sequence */
typedef struct kvp_kv_call kvp_kv_call;         /* the core's, valid during one hook */

typedef struct kvp_kv_model {
    kvp_head head;
    kvp_str architecture;
    uint64_t fingerprint; /* of the model's content; a calibration of another model is refused by the core */
    uint32_t n_layers;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_size;
    uint32_t width;
    uint32_t context;              /* most tokens of a sequence */
    uint32_t page_tokens;          /* tokens of a page */
    uint32_t group_tokens;         /* tokens of a group, the unit that is fetched */
    uint32_t kv_type;              /* of cached rows as ops read them: KVP_TYPE_* of kvp_rows */
    uint32_t reads_tiers_in_place; /* 1: the device reads every tier where it is, nothing has to be fetched */
    float norm_epsilon;
    uint32_t rope_style; /* KVP_ROPE_*, 0: no RoPE */
    uint32_t rope_dimensions;
    float rope_magnitude;
    const kvp_tensor* rope_frequencies; /* f32[rope_dimensions / 2], alive as long as the instance */
} kvp_kv_model;

/* Evidence: what a strategy asks to see. Tensors of kvp_kv_evidence are there where their bit was asked for. */
enum {
    KVP_EVIDENCE_NORMED_INPUT = 1u << 0, /* layer_begin: the attention input of this layer, normed */
    KVP_EVIDENCE_RESIDUAL = 1u << 1,     /* layer_begin: the residual stream before attention, before the norm weight */
    KVP_EVIDENCE_RESIDUAL_MID = 1u << 2, /* ffn_begin: the residual stream after attention */
    KVP_EVIDENCE_QUERY = 1u << 3,        /* on_write, attn_plan: q after RoPE */
    KVP_EVIDENCE_KEY = 1u << 4,          /* on_write: k after RoPE */
    KVP_EVIDENCE_QUERY_BEFORE_ROPE = 1u << 5,
    KVP_EVIDENCE_KEY_BEFORE_ROPE = 1u << 6,
    KVP_EVIDENCE_VALUE = 1u << 7,
    KVP_EVIDENCE_LSE = 1u << 8,   /* attn_done: log-sum-exp of each query and head */
    KVP_EVIDENCE_OUTPUT = 1u << 9 /* attn_done: attention's output */
};

typedef struct kvp_kv_evidence {
    kvp_head head;
    const kvp_tensor* normed_input;      /* f32[n, D] */
    const kvp_tensor* residual;          /* f32[n, D] */
    const kvp_tensor* residual_mid;      /* f32[n, D] */
    const kvp_tensor* query;             /* f32[n, H*d] */
    const kvp_tensor* key;               /* f32[n, G*d] */
    const kvp_tensor* query_before_rope; /* f32[n, H*d] */
    const kvp_tensor* key_before_rope;   /* f32[n, G*d] */
    const kvp_tensor* value;             /* f32[n, G*d] */
    const kvp_tensor* lse;               /* f32[n, H] */
    const kvp_tensor* output;            /* f32[n, H*d] */
    const kvp_tensor* positions;         /* i32[n], always there */
} kvp_kv_evidence;

/* Sidecars: data of the strategy beside the KV, in device memory, zeroed when new. The core allocates them for the
 * longest that the sequence may grow to and moves them with the rows that they describe. One block per layer and sequence:
 *   TOKEN     [n_kv_heads][capacity][n_bytes], capacity in rows      PAGE  the same, capacity in pages
 *   KV_HEAD   [n_kv_heads][n_bytes]                                  LAYER [n_bytes] */
enum { KVP_SIDECAR_TOKEN = 1, KVP_SIDECAR_PAGE = 2, KVP_SIDECAR_KV_HEAD = 3, KVP_SIDECAR_LAYER = 4 };

typedef struct kvp_sidecar {
    kvp_head head;
    kvp_str name;
    uint32_t scope;       /* KVP_SIDECAR_* */
    uint32_t first_layer; /* layers before it have none */
    uint64_t n_bytes;
} kvp_sidecar;

/* ROWS: it calls keep_rows or drop_pages. PAGES: drop_pages alone, which goes with codecs that encode rows together too. */
enum { KVP_DROPS_ROWS = 1, KVP_DROPS_PAGES = 2 };

/* What create returns beside the instance; borrowed from it for its life. */
typedef struct kvp_kv_needs {
    kvp_head head;
    uint64_t evidence;
    const kvp_sidecar* const* sidecars;
    uint32_t n_sidecars;
    uint32_t dense_layers;  /* the first layers, in which it selects nothing */
    uint64_t pool_tokens;   /* most rows of a sequence's cache; 0: no limit */
    uint64_t scratch_bytes; /* most device bytes of kvp_kv_core.scratch that are in use at once, a sequence */
    uint32_t needs_aux;     /* 1: cannot run without a calibration (kv.aux) */
    uint32_t lower_tier;    /* 1: full pages live in the host tier alone, whatever room the device tier has */
    uint32_t drops_rows;    /* KVP_DROPS_*: forks need room for all pages of their own; 0: no row leaves */
    uint32_t reserved0;
    kvp_str summary; /* for reports: the settings that it really runs with */
} kvp_kv_needs;

enum { KVP_PHASE_PREFILL = 1, KVP_PHASE_DECODE = 2 };

/* One sequence's part of a step. */
typedef struct kvp_kv_sequence {
    kvp_head head;
    uint64_t id;
    kvp_kv_state* state;
    uint32_t phase;
    uint32_t last_chunk; /* PREFILL: the prompt ends with this step */
    int64_t row_begin;   /* its rows in the step's tensors */
    int64_t n_rows;
    int64_t
        n_cached; /* rows in the cache of the layer at hand (else of layer 0) before this step; its new rows follow */
    int64_t position; /* of its first row: the true one, for RoPE; tokens that it has seen */
} kvp_kv_sequence;

typedef struct kvp_kv_step {
    kvp_head head;
    uint64_t number;
    const kvp_kv_sequence* const* sequences;
    uint32_t n_sequences;
    uint32_t layer; /* of a layer hook */
    const kvp_kv_evidence* evidence;
    kvp_queue* queue;
} kvp_kv_step;

typedef struct kvp_kv_weights {
    kvp_head head;
    const kvp_tensor* attention_norm; /* [D] */
    const kvp_tensor* query;          /* [H*d, D], its own format */
    const kvp_tensor* key;            /* [G*d, D] */
    const kvp_tensor* query_bias;     /* [H*d] or NULL */
    const kvp_tensor* key_bias;
} kvp_kv_weights;

typedef struct kvp_kv_core_object kvp_kv_core_object;

/* What the core does for a strategy. `sequence` is an index into step->sequences; `layer` may be any layer. */
typedef struct kvp_kv_core {
    kvp_head head;
    kvp_kv_core_object* object; /* first argument where there is no call */

    /* Ops of the device that the pipeline chose, as in device.h.
     * thread: serial: engine
     * blocks: prepare may
     * owns: the plan moves to the caller, who gives it back by op_release before destroy ends
     * since: 1.0 */
    kvp_status (*op_support)(kvp_kv_core_object* object, const kvp_op_request* request, kvp_op_answer* answer);
    kvp_status (*op_prepare)(kvp_kv_core_object* object, const kvp_op_request* request, kvp_plan** plan);
    void (*op_release)(kvp_kv_core_object* object, kvp_plan* plan);
    kvp_status (*op_enqueue)(kvp_kv_call* call, const kvp_plan* plan, const kvp_tensor* const* operands,
                             uint32_t n_operands, const void* arguments);

    /* Device memory for constants of the instance (a skew matrix), filled from host memory.
     * thread: serial: engine
     * blocks: yes
     * owns: the core's, until destroy
     * since: 1.0 */
    kvp_status (*constant)(kvp_kv_core_object* object, const void* data, uint64_t n_bytes, kvp_address* address);

    /* Device memory until the end of the step, for results that travel from one hook to the next.
     * thread: serial: engine
     * blocks: no
     * owns: the core's
     * since: 1.0 */
    kvp_status (*scratch)(kvp_kv_call* call, uint64_t n_bytes, kvp_address* address);

    /* Where a sidecar of a layer and sequence is, and its capacity (rows or pages a KV head; else 1). The capacity covers
     * the rows of this step. The address holds until the step ends.
     * thread: serial: engine
     * blocks: no
     * owns: the core's
     * since: 1.0 */
    kvp_status (*sidecar)(kvp_kv_call* call, uint32_t sequence, uint32_t layer, uint32_t sidecar, kvp_address* address,
                          uint64_t* capacity);

    /* Where the cached rows of a layer and sequence are; some may not be where the device reads them (ops.h).
     * thread: serial: engine
     * blocks: no
     * owns: rows is filled; valid for the hook
     * since: 1.0 */
    kvp_status (*rows)(kvp_kv_call* call, uint32_t sequence, uint32_t layer, kvp_rows* rows);

    /* Starts to bring what the segment names to where the device reads it. Only what is missing moves; what came stays in
     * the resident set. The ticket goes into the segment that attn_plan gives for that layer. Attention is right without
     * it: then the core fetches when it gets there, and the time is not hidden.
     * thread: serial: engine
     * blocks: no
     * owns: index and count must stay until that layer's attention: use scratch
     * since: 1.0 */
    kvp_status (*fetch)(kvp_kv_call* call, uint32_t sequence, uint32_t layer, const kvp_segment* segment,
                        uint64_t* ticket);

    /* attn_plan only: adds a segment to what attention of this sequence reads. Segments are disjoint; one causal RANGE
     * among them ends with the step's last row and begins at or before its first, which the core checks.
     * thread: serial: engine
     * blocks: no
     * owns: copied; memory behind addresses until the queue has passed
     * since: 1.0 */
    kvp_status (*segment)(kvp_kv_call* call, uint32_t sequence, const kvp_segment* segment);

    /* Walks cached rows [begin, end) of this layer in pieces that the device can read, calling visit for each, in order.
     * thread: serial: engine
     * blocks: may wait for transfers
     * owns: rows valid inside visit
     * since: 1.0 */
    kvp_status (*visit)(kvp_kv_call* call, uint32_t sequence, uint32_t layer, int64_t begin, int64_t end,
                        kvp_status (*visit)(void* context, const kvp_rows* rows, int64_t begin, int64_t end),
                        void* context);

    /* Copies between places of device memory that the strategy has, in the queue's order: sidecars, scratch, evidence.
     * thread: serial: engine
     * blocks: no
     * owns: regions borrowed
     * since: 1.0 */
    kvp_status (*copy)(kvp_kv_call* call, const kvp_copy_region* regions, uint32_t n_regions);

    /* Rows leave a layer's cache for good, and their pages go back to the tier. The rows that stay move together: row r is
     * no longer the r-th token, and layers differ in n_cached. True positions stay those of kvp_kv_sequence.
     *   keep_rows   keeps of each KV head `n_chosen` rows that an index in device memory names, i32[n_kv_heads][stride],
     *               ascending and below tail_begin, and all rows from tail_begin on. TOKEN sidecars move along; PAGE
     *               sidecars are the strategy's to make anew.
     *   drop_pages  drops the pages of memory [first, first + n_pages), which must be full. Sidecars move along.
     * Needs kvp_kv_needs.drops_rows. In step_begin, of any layer; in attn_done, ffn_begin, chunk_end and prefill_end, of that hook's layer, with the step's
     * rows counted. At most once a hook, layer and sequence.
     * thread: serial: engine
     * blocks: may wait for transfers
     * owns: index borrowed
     * since: 1.0 */
    kvp_status (*keep_rows)(kvp_kv_call* call, uint32_t sequence, uint32_t layer, kvp_address index,
                            uint64_t index_stride, uint32_t n_chosen, int64_t tail_begin);
    kvp_status (*drop_pages)(kvp_kv_call* call, uint32_t sequence, uint32_t layer, uint32_t first, uint32_t n_pages);
} kvp_kv_core;

/* Rows that leave a full pool: for each KV head, `n_rows` cached rows that new ones take the places of. */
typedef struct kvp_kv_eviction {
    kvp_head head;
    uint32_t sequence;
    uint32_t layer;
    uint32_t n_rows; /* victims wanted, a KV head */
    uint32_t n_kv_heads;
    int64_t candidates_begin; /* victims lie in [begin, end): the newest rows are protected */
    int64_t candidates_end;
    int32_t* victims; /* [n_kv_heads][n_rows], host memory, the hook fills it: distinct a head, in bounds */
} kvp_kv_eviction;

/* Takes the bytes of a blob that the core stores (kv.aux).
 * thread: serial: engine
 * blocks: yes
 * owns: data borrowed
 * since: 1.0 */
typedef kvp_status (*kvp_kv_blob_fn)(void* context, const void* data, uint64_t n_bytes);

typedef struct kvp_kv {
    kvp_head head;

    /* One instance per model. Options come from the host (host.h). Says by `needs` what it wants.
     * thread: serial: engine
     * blocks: yes
     * owns: the instance moves to the caller; core and model alive until destroy
     * since: 1.0 */
    kvp_status (*create)(const kvp_kv_core* core, const kvp_kv_model* model, kvp_kv_instance** instance,
                         const kvp_kv_needs** needs);
    void (*destroy)(kvp_kv_instance* instance);

    /* The attention weights of each layer, once after create; alive as long as the instance.
     * thread: serial: engine
     * blocks: yes
     * owns: borrowed until destroy
     * since: 1.0 */
    kvp_status (*weights_ready)(kvp_kv_instance* instance, uint32_t layer, const kvp_kv_weights* weights);

    /* Calibration. calibrate sees q and k after RoPE of a sample text, in host memory, f32[n_rows, heads*d], layer by
     * layer; aux_save gives the result to the core's file; aux_load gets it back before the first sequence.
     * thread: serial: engine
     * blocks: yes
     * owns: data borrowed
     * since: 1.0 */
    kvp_status (*calibrate)(kvp_kv_instance* instance, uint32_t layer, const float* query, const float* key,
                            int64_t n_rows);
    kvp_status (*aux_save)(kvp_kv_instance* instance, kvp_kv_blob_fn write, void* context);
    kvp_status (*aux_load)(kvp_kv_instance* instance, const void* data, uint64_t n_bytes);

    /* A sequence begins, splits, loses rows from n_cached on, ends. *state may stay NULL. prompt_tokens is 0 where the
     * prompt's length is not known yet. Between two steps; what scratch and fetch gave is gone.
     * seq_fork: the core copies all sidecars; the new state belongs to rows [0, n_cached) of both.
     * seq_rewind: the core zeroes TOKEN sidecars of the rows from n_cached on and PAGE sidecars of the pages that begin
     * there. What else depends on rows that are gone is the strategy's to put right: a summary of the page that n_cached
     * lies inside of (made anew from its first row: step_begin may visit it), sums over rows or queries. One that cannot
     * says KVP_UNSUPPORTED and changes nothing. Rows that were evicted or moved do not come back: the core refuses that.
     * A strategy without seq_fork must leave *state NULL, one without seq_rewind must have no sidecars either, or the
     * core refuses.
     * thread: serial: engine
     * blocks: no
     * owns: the state is the strategy's until seq_close
     * since: 1.0 */
    kvp_status (*seq_open)(kvp_kv_instance* instance, uint64_t id, int64_t prompt_tokens, int64_t max_tokens,
                           kvp_kv_state** state);
    kvp_status (*seq_fork)(kvp_kv_instance* instance, kvp_kv_state* from, uint64_t id, kvp_kv_state** state);
    kvp_status (*seq_rewind)(kvp_kv_instance* instance, kvp_kv_state* state, int64_t n_cached);
    void (*seq_close)(kvp_kv_instance* instance, kvp_kv_state* state);

    /* The hooks of a step, in this order (see the top). step->layer says the layer; chunk_end comes after every prefill
     * step's layer, prefill_end after the last one's; both while that layer's rows are freshly written.
     * thread: serial: engine
     * blocks: no
     * owns: all borrowed
     * since: 1.0 */
    kvp_status (*step_begin)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step);
    kvp_status (*layer_begin)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step);
    kvp_status (*on_write)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step);
    kvp_status (*attn_plan)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step);
    kvp_status (*attn_done)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step);
    kvp_status (*ffn_begin)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step);
    kvp_status (*chunk_end)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step, uint32_t sequence);
    kvp_status (*prefill_end)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step, uint32_t sequence);
    kvp_status (*step_end)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step);

    /* A full pool (pool_tokens): choose victims. The core copies the page that starts at candidates_end over them, KV and
     * TOKEN sidecars alike, and takes that page out: rows and PAGE sidecars behind it move down by n_rows. Then it calls
     * rows_replaced with the same struct. That page is the last complete one but one, so that the newest stay.
     * thread: serial: engine
     * blocks: no
     * owns: borrowed
     * since: 1.0 */
    kvp_status (*evict)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step,
                        const kvp_kv_eviction* eviction);
    kvp_status (*rows_replaced)(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step,
                                const kvp_kv_eviction* eviction);

    /* What a decoding sequence selected in a layer (ROW_LIST), for pools that count uses: a host copy, at the end of the
     * step, before step_end; index ascending i32[n_kv_heads][index_stride].
     * thread: serial: engine
     * blocks: no
     * owns: borrowed
     * since: 1.0 */
    kvp_status (*selected)(kvp_kv_instance* instance, kvp_kv_state* state, uint32_t layer, const int32_t* index,
                           const int32_t* counts, uint64_t index_stride);
} kvp_kv;

#endif /* KVPLANE_KV_H_ */
