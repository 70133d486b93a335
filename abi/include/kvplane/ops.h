/* The ops that the core and its strategies ask of a device, by string id and revision. A new op is no ABI event: a device
 * that lacks one answers KVP_UNSUPPORTED, and who asked says so.
 *
 * Notation: n rows of a step (all sequences one after the other), D model width, H query heads, G KV heads, d head size,
 * group = H / G query heads that share a KV head. Plain tensors are contiguous f32 unless said; "w" is any format that
 * op_support accepts. Operands stand in the order given; constants are those of kvp_op_request.
 *
 *  id                     constants             operands                                   attributes / arguments
 *  kvp.embed/1            w[V,D]                ids i32[n], out[n,D]                       -
 *  kvp.rms_norm/1         weight[D]             x[n,D], out[n,D]                           kvp_norm_attributes
 *  kvp.linear/1           w0[o0,i] … wk[ok,i]   x[n,i], out0[n,o0] … outk[n,ok]            kvp_linear_attributes
 *  kvp.swiglu/1           -                     gate[n,F], up[n,F], out[n,F]               -
 *  kvp.rope/1             frequencies[r/2]      x[n,heads*d], positions i32[n]             kvp_rope_attributes   in place
 *  kvp.kv_write/1         -                     k[n,G*d], v[n,G*d]                         kvp_kv_write_arguments
 *  kvp.attention_input/1  norm[D], q, k, v, freq[r/2]  x[n,D], positions i32[n], q[n,H*d], k[n,G*d], v[n,G*d]
 *                                               kvp_attention_input_attributes, kvp_kv_write_arguments
 *  kvp.feed_forward/1     norm[D], gate w[F,D], up w[F,D], down w[D,F]   x[n,D]  kvp_feed_forward_attributes  in place
 *  kvp.attention/1        -                     q[n,H*d], out[n,H*d], lse[n,H]             kvp_row_attributes or -, kvp_attention_arguments
 *  kvp.column_statistics/1 -                    q[n,H*d], k[n,G*d]                         kvp_column_statistics_arguments
 *  kvp.partial_index/1    -                     -                                          kvp_partial_index_arguments
 *  kvp.partial_keys/1     -                     -                                          kvp_partial_keys_arguments
 *  kvp.partial_scores/1   -                     q[n,H*d]                                   kvp_partial_scores_arguments
 *  kvp.select_pages/1     -                     q[n,H*d]                                   kvp_select_pages_arguments
 *  kvp.select_rows/1      -                     -                                          kvp_select_rows_arguments
 *  kvp.page_means/1       -                     -                                          kvp_page_means_arguments
 *  kvp.page_bias/1        -                     -                                          kvp_page_bias_arguments
 *  kvp.page_bounds/1      -                     -                                          kvp_page_bounds_arguments
 *  kvp.page_bound_scores/1 -                    q[n,H*d]                                   kvp_page_bound_scores_arguments
 *  kvp.turned_rows/1      frequencies[r/2]      -                kvp_rope_attributes, kvp_turned_rows_arguments
 *  kvp.column_sums/1      -                     q[n,H*d], lse[n,H]                         kvp_column_sums_arguments
 *  kvp.pool_scores/1      -                     -                                          kvp_pool_scores_arguments
 *
 * attention_input and feed_forward are a layer's ops in one, for devices that gain by it. No device has to have them: the
 * core asks op_support and puts rms_norm, linear, rope, kv_write and swiglu where the answer is no, or where a strategy
 * wants to see what is in between.
 *
 * A cached row is K||V of one (token, KV head): 2*d values in one run of kvp_row_bytes bytes. KVP_TYPE_F16, KVP_TYPE_F32,
 * KVP_TYPE_BF16: plain values. KVP_TYPE_I8: int8 values, 2*d of them in [-127, 127], then two f16, the scales of K and of V; a value is
 * its half's scale times its int8. Scales stand with their row, so that a row can still be moved and read alone.
 * KVP_TYPE_I8_GROUPS, KVP_TYPE_I4_GROUPS: codes of B = 8 or 4 bits, those of K, then those of V; then for each 64 columns
 * of K, and then of V, two f16: a reciprocal scale s and a minimum m; a value is code / s + m. Of 4 bits a byte holds two
 * columns, the even one in the high half. Written from x in f32, limited to what f16 can hold, where columns from d to the
 * next multiple of 64 are zeros that count but are not stored: m = f16(min x); s = f16(min((2^B - 1) / (max x - min x),
 * 65504)), 1 where max x = min x; code = (x - m) * s, rounded to the nearest, ties to even, in [0, 2^B - 1]. A group with
 * a value that is no number gets such a minimum. Every device knows F16 and F32 rows; of the others one says by op_support
 * of kvp.attention/1 with kvp_row_attributes whether all its ops read and write them.
 * Rows stand in *groups* of `group_tokens` tokens of one KV head, one run of bytes; where a group is says the group
 * table: address of group t / group_tokens of KV head g at groups[g * groups_stride + t / group_tokens], 0 when it is
 * not where the device can read it. */
#ifndef KVPLANE_OPS_H_
#define KVPLANE_OPS_H_

#include "base.h"

typedef struct kvp_norm_attributes {
    kvp_head head;
    float epsilon;
    uint32_t reserved0;
} kvp_norm_attributes;

/* Several weights share one input: it is quantised once. accumulate: out += x w^T (a residual connection). */
typedef struct kvp_linear_attributes {
    kvp_head head;
    uint32_t accumulate;
    uint32_t exact_f32; /* no int8 activations: f32 arithmetic on the dequantised weights, for tests */
} kvp_linear_attributes;

enum { KVP_ROPE_INTERLEAVED = 1 /* pairs (2i, 2i+1) */, KVP_ROPE_HALVES = 2 /* pairs (i, i + r/2) */ };

/* Rotates the first `dimensions` values of each head by position * frequency; cos and sin times `magnitude`. */
typedef struct kvp_rope_attributes {
    kvp_head head;
    uint32_t style;
    uint32_t head_size;
    uint32_t dimensions;
    float magnitude;
} kvp_rope_attributes;

/* Where the rows of one sequence and layer are. */
typedef struct kvp_rows {
    kvp_head head;
    kvp_address groups;     /* u64[n_kv_heads][groups_stride], in device memory */
    uint64_t groups_stride; /* entries a KV head */
    uint32_t n_kv_heads;
    uint32_t head_size;
    uint32_t group_tokens;
    uint32_t type; /* KVP_TYPE_*, see above */
} kvp_rows;

/* Attributes of kvp.attention/1, or NULL: rows of any type that the device knows. */
typedef struct kvp_row_attributes {
    kvp_head head;
    uint32_t type;
    uint32_t head_size;
} kvp_row_attributes;

/* Bytes of a cached row, 0 for a type that rows cannot have. */
static inline uint64_t kvp_row_bytes(uint32_t type, uint32_t head_size) {
    switch (type) {
        case KVP_TYPE_F32: return (uint64_t)8 * head_size;
        case KVP_TYPE_F16: return (uint64_t)4 * head_size;
        case KVP_TYPE_BF16: return (uint64_t)4 * head_size;
        case KVP_TYPE_I8: return (uint64_t)2 * head_size + 4;
        case KVP_TYPE_I8_GROUPS: return (uint64_t)2 * head_size + ((uint64_t)head_size + 63) / 64 * 8;
        case KVP_TYPE_I4_GROUPS: return (uint64_t)head_size + ((uint64_t)head_size + 63) / 64 * 8;
        default: return 0;
    }
}

typedef struct kvp_kv_write_item { /* one sequence of the step */
    kvp_head head;
    const kvp_rows* rows;
    int64_t row_begin; /* its rows in k and v */
    int64_t n_rows;
    int64_t token_begin; /* row_begin becomes this cached row */
} kvp_kv_write_item;

typedef struct kvp_kv_write_arguments {
    kvp_head head;
    const kvp_kv_write_item* const* items;
    uint32_t n_items;
    uint32_t reserved0;
} kvp_kv_write_arguments;

/* q, k, v = norm(x) times their weights; q and k turned as by kvp.rope; k and v written as by kvp.kv_write. The outputs
 * hold what was turned and written. exact_f32 as in kvp_linear_attributes. */
typedef struct kvp_attention_input_attributes {
    kvp_head head;
    float epsilon; /* of the norm */
    uint32_t exact_f32;
    uint32_t style; /* from here on as in kvp_rope_attributes */
    uint32_t head_size;
    uint32_t dimensions;
    float magnitude;
} kvp_attention_input_attributes;

/* x += (silu(norm(x) gate^T) * (norm(x) up^T)) down^T. exact_f32 as in kvp_linear_attributes. */
typedef struct kvp_feed_forward_attributes {
    kvp_head head;
    float epsilon; /* of the norm */
    uint32_t exact_f32;
} kvp_feed_forward_attributes;

/* What attention reads. RANGE: cached rows [begin, end) of every KV head. PAGE_LIST and ROW_LIST: `index` holds pages of
 * `page_tokens` tokens or rows, ascending, i32[n_kv_heads][index_stride], of which the first count[kv_head] are valid.
 * VIRTUAL: not cached rows but an array [n_kv_heads][virtual_stride] of rows K||V of `virtual_type`, the first
 * `virtual_count` of each head, with an optional bias f32[n_kv_heads][virtual_stride] that is added to the scaled score
 * (-inf: left out). CAUSAL: a query at cached row p sees only rows <= p. A list with end > 0 leaves out rows outside
 * [begin, end): a page that is not full yet needs that or CAUSAL. */
enum { KVP_SEGMENT_RANGE = 1, KVP_SEGMENT_PAGE_LIST = 2, KVP_SEGMENT_ROW_LIST = 3, KVP_SEGMENT_VIRTUAL = 4 };
enum { KVP_SEGMENT_CAUSAL = 1u << 0 };

typedef struct kvp_segment {
    kvp_head head;
    uint32_t form;  /* KVP_SEGMENT_* */
    uint32_t flags; /* KVP_SEGMENT_CAUSAL */
    int64_t begin;  /* RANGE */
    int64_t end;
    kvp_address index; /* PAGE_LIST, ROW_LIST; device memory */
    kvp_address count; /* i32[n_kv_heads], device memory: no host needs to know it */
    uint64_t index_stride;
    uint32_t max_count; /* what count can be at most */
    uint32_t page_tokens;
    kvp_address virtual_rows;
    kvp_address virtual_bias; /* 0: none */
    uint64_t virtual_stride;
    uint32_t virtual_count;
    uint32_t virtual_type;
    uint64_t ticket; /* of kvp_kv_core.fetch; 0: none. Attention waits for it; devices ignore it */
} kvp_segment;

typedef struct kvp_attention_item { /* one sequence of the step */
    kvp_head head;
    const kvp_rows* rows;
    int64_t row_begin; /* its rows in q, out and lse */
    int64_t n_rows;
    int64_t token_begin; /* the cached row of q's row_begin */
    const kvp_segment* const* segments;
    uint32_t n_segments;
    uint32_t merge; /* out and lse already hold a partial result over other rows: merge with it by LSE */
} kvp_attention_item;

/* out = softmax(scale * q k^T + bias) v over all segments of the sequence; lse = log of the sum of exponentials.
 * An item whose segments hold no row for a query gives out 0 and lse -inf there. exact_f32: nothing is rounded below f32
 * but what the cached rows are made of; without it a device may multiply in bf16 or as exact. */
typedef struct kvp_attention_arguments {
    kvp_head head;
    const kvp_attention_item* const* items;
    uint32_t n_items;
    uint32_t n_heads;
    float scale;
    uint32_t exact_f32;
} kvp_attention_arguments;

/* ---- index ops: the arithmetic of strategies. One call serves one sequence and layer. ---- */

/* Adds to running sums over q and k of rows [row_begin, row_begin + n_rows), both times skew when given:
 * statistics f64[G][5][d]: sum |q| over rows and the heads of the group, sum q^2 over the same, sum |k|, sum k, sum k^2. */
typedef struct kvp_column_statistics_arguments {
    kvp_head head;
    kvp_address statistics;
    kvp_address skew; /* f32[G][d][d], x becomes x * skew; 0: identity */
    int64_t row_begin;
    int64_t n_rows;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_size;
    uint32_t reserved0;
} kvp_column_statistics_arguments;

enum {
    KVP_COLUMNS_ABS_SUM = 1, /* top of sum|q| / group + sum|k| (paper) */
    KVP_COLUMNS_Q = 2,       /* top of sum|q| (artifact, speed) */
    KVP_COLUMNS_UNION = 3,   /* top of sum|q| and top of sum|k| (artifact, accuracy): up to twice as many columns */
    KVP_COLUMNS_ENERGY = 4   /* top of mean q^2 times variance of k; of one row mean q^2 */
};

/* Picks `n_chosen` columns a KV head and writes projection f32[G][d][n_columns]: column j of head g is skew's column
 * index[g][j] (or a unit vector); index i32[G][n_columns], -1 (and zero column) where unused; mean f32[G][n_columns],
 * the prompt's mean of the projected keys. n_columns >= n_chosen, and >= 2 n_chosen for UNION. Ties: lower column. */
typedef struct kvp_partial_index_arguments {
    kvp_head head;
    kvp_address statistics;
    kvp_address skew;
    kvp_address projection;
    kvp_address index;
    kvp_address mean;
    int64_t n_rows; /* how many rows the statistics hold */
    uint32_t mode;
    uint32_t n_chosen;
    uint32_t n_columns;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_size;
} kvp_partial_index_arguments;

/* Partial keys of cached rows [token_begin, token_end): key * projection - mean. Without a projection, key[columns] - mean:
 * a skew of unit vectors need not be multiplied with. Stored as [G][capacity / 16] tiles of 16
 * rows side by side, capacity a multiple of 16:
 *   F32, F16  [n_columns][16]: the values as they are (mean not subtracted)
 *   I8        [n_columns / 4][16][4]: round(x / s) + 128, s = max|x| / 127 a row, with scales f32[G][capacity]
 *   I4        [n_columns / 8][16][4], a byte two columns: the first four in the low nibbles, the next four in the high ones:
 *             round(x / s) + 8, clamped to [0, 15], with s = scales f32[G][n_columns]
 * The last word of 4 or 8 columns is padded. */
typedef struct kvp_partial_keys_arguments {
    kvp_head head;
    const kvp_rows* rows;
    kvp_address projection; /* 0: columns is used */
    kvp_address columns;    /* i32[G][n_columns], the index of partial_index, -1: nothing */
    kvp_address mean;
    kvp_address keys;
    kvp_address scales;
    uint64_t capacity;
    int64_t token_begin;
    int64_t token_end;
    uint32_t type;
    uint32_t n_columns;
    uint32_t find_scales; /* I4: raise scales to max|x| / 7 over these rows first (the prompt's), and do not store */
    uint32_t reserved0;
} kvp_partial_keys_arguments;

/* What a row is worth to the heads of a group: per head its score less the head's largest, of these the mean or the best; or
 * less the logarithm of the sum of exponentials of all the head's scores, the best: the logarithm of the row's share of that head's attention,
 * which can be compared among KV heads. */
enum { KVP_GROUP_MEAN = 0, KVP_GROUP_BEST = 1, KVP_GROUP_MASS = 2 };

/* scores f32[G][scores_stride] of cached rows [0, n_tokens) for the query in row `row` of q: per head
 * scale * (q projection) . partial key, then what group_score says. With `pages`, of the rows of those pages alone, one page after the other: entry e of KV head g is row
 * pages[g][e / page_tokens] * page_tokens + e % page_tokens, as far as it is below n_tokens. */
typedef struct kvp_partial_scores_arguments {
    kvp_head head;
    kvp_address projection; /* as in partial_keys */
    kvp_address columns;
    kvp_address keys;
    kvp_address scales;
    kvp_address scores;
    uint64_t capacity;
    uint64_t scores_stride;
    int64_t row;
    int64_t n_tokens;
    uint32_t type;
    uint32_t n_columns;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_size;
    uint32_t group_score; /* KVP_GROUP_* */
    float scale;
    uint32_t page_tokens;    /* of a listed page, a multiple of 16 */
    kvp_address pages;       /* i32[G][pages_stride], ascending; 0: all rows */
    kvp_address page_counts; /* i32[G]: how many are listed */
    uint64_t pages_stride;
} kvp_partial_scores_arguments;

enum {
    KVP_SELECT_STRICT = 1u << 0,   /* count scores > max - alpha, not >= */
    KVP_SELECT_PER_HEAD = 1u << 1, /* each KV head its own count, not the heads' mean */
    KVP_SELECT_SHARED = 1u << 2    /* G * count rows for all KV heads together; not with PER_HEAD */
};

/* count = mean over KV heads of #{score >= max - alpha}, or > with STRICT, rounded down, max being the KV head's largest score
 * (fixed_share >= 0: that share of n_tokens instead), at least min_count, at most floor(max_share * n_tokens), at least 1. Then
 * the `count` best rows of each KV head outside [0, skip_begin) and [n_tokens - skip_end, n_tokens), ascending, to index
 * i32[G][index_stride]; how many there are to counts i32[G]. Ties: lower row. alpha may be infinite. `pages` as in
 * partial_scores, whose scores these are: then only rows of those pages count and are chosen.
 * SHARED: the G * count best rows of all KV heads together say how many are each head's, of which it gets at most max_count;
 * ties: lower head.
 * unit_tokens > 1: rows are chosen in whole units. A unit is unit_tokens rows from a multiple of unit_tokens on, as far as they
 * may be chosen; its score is its best row's. The best units are taken, ties: lower unit, until they hold `count` rows, and the
 * last of them is left out where they would pass max_count. index and counts are of rows all the same. */
typedef struct kvp_select_rows_arguments {
    kvp_head head;
    kvp_address scores;
    uint64_t scores_stride;
    kvp_address index;
    uint64_t index_stride;
    kvp_address counts;
    int64_t n_tokens;
    int64_t skip_begin;
    int64_t skip_end;
    uint32_t n_kv_heads;
    uint32_t flags;
    uint32_t min_count;
    uint32_t max_count; /* room in index */
    float alpha;
    float max_share;
    float fixed_share;
    uint32_t page_tokens;
    kvp_address pages;
    kvp_address page_counts;
    uint64_t pages_stride;
    uint32_t unit_tokens; /* 0, 1: rows one by one; divides the page_tokens of listed pages */
    uint32_t reserved0;
} kvp_select_rows_arguments;

/* The `count` best pages of each KV head (all, where there are fewer), ascending, to pages i32[G][pages_stride], and how
 * many they are to page_counts i32[G]. A page's score for a query head is q . mean + |q| . spread of its K, which few rows
 * of it exceed, less the best page's; the best head of the group counts. Ties: lower page. */
typedef struct kvp_select_pages_arguments {
    kvp_head head;
    kvp_address means;   /* of page_means */
    kvp_address spreads; /* of page_means */
    kvp_address pages;
    kvp_address page_counts;
    uint64_t capacity; /* pages of means and spreads */
    uint64_t pages_stride;
    int64_t row; /* of q */
    int64_t n_tokens;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_size;
    uint32_t page_tokens;
    uint32_t count;
    uint32_t type; /* of means and spreads */
} kvp_select_pages_arguments;

/* means: virtual rows [G][capacity] of mean K||V of each page, brought up to date for cached rows
 * [token_begin, token_end) that were appended; spreads [G][capacity][d]: the standard deviation of its K. Both are of
 * `type`, F16 or F32. A page that token_begin lies inside of goes on from its old values. */
typedef struct kvp_page_means_arguments {
    kvp_head head;
    const kvp_rows* rows;
    kvp_address means;
    kvp_address spreads; /* 0: not wanted */
    uint64_t capacity;   /* pages */
    int64_t token_begin;
    int64_t token_end;
    uint32_t page_tokens;
    uint32_t type;
} kvp_page_means_arguments;

/* bias f32[G][capacity] of the first ceil(n_tokens / page_tokens) pages: log of the number of the page's rows that are
 * neither in index nor in [0, skip_begin) nor in [n_tokens - skip_end, n_tokens); -inf for none. */
typedef struct kvp_page_bias_arguments {
    kvp_head head;
    kvp_address index;
    uint64_t index_stride;
    kvp_address counts;
    kvp_address bias;
    uint64_t capacity;
    int64_t n_tokens;
    int64_t skip_begin;
    int64_t skip_end;
    uint32_t n_kv_heads;
    uint32_t page_tokens;
} kvp_page_bias_arguments;

/* bounds f32[G][capacity][2][d]: of each page the greatest, then the least value of every channel of K, brought up to date
 * for cached rows [token_begin, token_end) that were appended. A page that token_begin lies inside of goes on from its old
 * values. */
typedef struct kvp_page_bounds_arguments {
    kvp_head head;
    const kvp_rows* rows;
    kvp_address bounds;
    uint64_t capacity; /* pages */
    int64_t token_begin;
    int64_t token_end;
    uint32_t page_tokens;
    uint32_t reserved0;
} kvp_page_bounds_arguments;

/* scores f32[G][scores_stride] of pages [0, n_pages) for the query in row `row` of q: the sum over channels of
 * max(q * greatest, q * least), which q . k of no row of the page exceeds, less the head's best page with `relative`; of
 * the heads of a group the greatest, or with `mean` their mean. */
typedef struct kvp_page_bound_scores_arguments {
    kvp_head head;
    kvp_address bounds; /* of page_bounds */
    kvp_address scores;
    uint64_t capacity;
    uint64_t scores_stride;
    int64_t row;
    int64_t n_pages;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_size;
    uint32_t mean;
    uint32_t relative;
    uint32_t reserved0;
} kvp_page_bound_scores_arguments;

/* Virtual rows f32[G][stride]: cached rows [token_begin, token_end) from place 0 on, their K turned on by `shift` positions
 * (the magnitude of the attributes is not applied once more). */
typedef struct kvp_turned_rows_arguments {
    kvp_head head;
    const kvp_rows* rows;
    kvp_address virtual_rows;
    uint64_t stride;
    int64_t token_begin;
    int64_t token_end;
    int64_t shift;
} kvp_turned_rows_arguments;

/* Attention's probabilities, summed over queries: for cached rows t of [token_begin, token_end)
 *   sums f32[G][capacity], at t: the sum over rows i of [row_begin, row_begin + n_rows) of q and the heads of the group of
 *   exp(scale * q_i . k_t - lse_i), as far as t <= query_begin + i - row_begin, the cached row of the query;
 *   counts f32[G][capacity], at t, unless 0: how many of these queries see t.
 * Both are added to what is there, but written for t >= fresh_begin. With the lse of attention over all rows these are its
 * probabilities, whatever kernel it ran. */
typedef struct kvp_column_sums_arguments {
    kvp_head head;
    const kvp_rows* rows;
    kvp_address sums;
    kvp_address counts;
    uint64_t capacity;
    int64_t token_begin;
    int64_t token_end;
    int64_t fresh_begin;
    int64_t row_begin; /* of q and lse */
    int64_t n_rows;
    int64_t query_begin;
    uint32_t n_heads;
    float scale;
} kvp_column_sums_arguments;

enum { KVP_POOL_MEAN = 1 /* a place outside counts as 0 */, KVP_POOL_MAX = 2 /* a place outside counts nothing */ };

/* pooled f32[G][pooled_stride], at t of [0, n): the mean or maximum of scores / counts over the `width` places around t
 * (width odd; 1: scores / counts as they are). counts 0: not divided; a count of 0 gives 0. */
typedef struct kvp_pool_scores_arguments {
    kvp_head head;
    kvp_address scores; /* f32[G][stride] */
    kvp_address counts;
    kvp_address pooled;
    uint64_t stride; /* of scores and counts */
    uint64_t pooled_stride;
    int64_t n;
    uint32_t n_kv_heads;
    uint32_t mode; /* KVP_POOL_* */
    uint32_t width;
    uint32_t reserved0;
} kvp_pool_scores_arguments;

#endif /* KVPLANE_OPS_H_ */
