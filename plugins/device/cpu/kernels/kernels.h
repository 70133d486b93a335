// The inner loops of the plugin, once per instruction set. Everything above works through this table and is compiled
// for the x86-64 baseline, so that the library loads on any machine.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace kvplane::cpu {

// Weights are packed in panels: 16 output rows side by side, so that a vector holds one position of 16 rows and sums
// stay vertical. See packed_weights.h for the bytes.
constexpr int64_t kPanelRows = 16;
constexpr int64_t kBlock = 32;        // elements that share a scale, in weights and in activations
constexpr int64_t kSuperBlock = 256;  // of K-quants

enum class PanelFormat : uint32_t {
    F32 = 0,
    F16 = 1,
    BF16 = 2,
    Q8_0 = 3,
    Q4_0 = 4,
    Q4_1 = 5,
    Q4_K = 6,
    Q5_K = 7,
    Q6_K = 8
};
constexpr size_t kPanelFormats = 9;

constexpr bool is_quantised(PanelFormat format) {
    return format >= PanelFormat::Q8_0;
}
constexpr bool is_k_quant(PanelFormat format) {
    return format >= PanelFormat::Q4_K;
}

// 32 activations in int8, x = scale * value, with all that the formats of weights make of their sum, so that a kernel
// only has to load it.
struct ActivationBlock {
    int8_t values[kBlock];
    float scale;
    float scaled_sum;          // scale * sum of values: what a block's minimum is multiplied by
    int32_t minus_128_sums;    // takes the offset of Q8_0 bytes back out
    int32_t minus_8_sums;      // and that of Q4_0 nibbles
    int32_t minus_32_sums[2];  // and that of Q6_K, for each half
};

struct Activations {
    const float* x;                 // [rows][width]
    const ActivationBlock* blocks;  // [rows][width / 32], where a quantised weight asks for it
    int64_t width;
};

// out[row][column] (+)= x[row] . weight[column], for rows [row_begin, row_end) and the panels given.
struct PanelTask {
    const uint8_t* panels;
    int64_t panel_bytes;
    int64_t n_panels;
    int64_t n_columns;  // valid columns of all these panels together; the last panel may be part full
    Activations in;
    int64_t row_begin;
    int64_t row_end;
    float* out;  // column 0 of the first panel here
    int64_t out_stride;
    bool accumulate;
};

// Types of rows. I8 rows have a scale each, those of groups a scale and a minimum for 64 columns (ops.h).
enum class RowType : uint32_t { F32 = 0, F16 = 1, I8 = 2, BF16 = 3, I8Groups = 4, I4Groups = 5 };
constexpr int64_t kGroupColumns = 64;

// Rows anywhere in memory. The rows `next` are asked for meanwhile: evenly, as a burst would stall, and each whole and in
// its order, K and V alike, so that the processor sees one stream and runs ahead of it.
struct Rows {
    const uint8_t* const* at;
    int64_t n;
    int64_t offset;              // bytes from each pointer to what is read
    const uint8_t* const* next;  // NULL, or half as many as `at` (rounded up to 16), any of them null
    int64_t next_bytes = 0;      // a row of `next`
    int64_t scale = 0;           // bytes from each pointer to the f16 scale of an I8 row, or the scales of its groups
};

constexpr int64_t kBlockRows = 64;  // most rows that attention takes at once

constexpr size_t kRowTypes = 6;

// Most bytes that a packed query of DecodeKernels takes, a multiple of 64.
constexpr int64_t packed_query_bytes(int64_t width) {
    return (width + 63) / 64 * (64 * 8 + 192);
}

// Few queries over rows of one type where they lie in the cache, each row read once for all queries.
struct DecodeKernels {
    // Queries as `score` takes them: packed_query_bytes a query, at a multiple of 64. The layout is the kernel's.
    void (*pack_queries)(const float* queries, int64_t n_queries, int64_t width, void* packed);
    // out[q][row] = queries[q] . rows[row][0 .. width), and anything up to the next multiple of 16 rows.
    void (*score)(const void* packed, int64_t n_queries, const Rows& rows, int64_t width, float* out,
                  int64_t out_stride);
    // One block of an online softmax: scores[q][0 .. visible[q]) become exp(score - new maximum), the rest up to n 0;
    // sums and out[q][0 .. width) go on from the old maximum. Scores of -inf count nothing. n is a multiple of 16; a sum
    // is what the 16 values of sums[q][16] add up to.
    void (*softmax)(float* scores, int64_t score_stride, int64_t n_queries, const int32_t* visible, int64_t n,
                    float* maxima, float* sums, float* out, int64_t width);
    // out[q][0 .. width) += weights[q][row] * rows[row][0 .. width), weights as softmax leaves them; width is a multiple
    // of 16.
    void (*accumulate)(const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows, int64_t width,
                       float* out, int64_t out_stride);
};

// Many queries of one KV head as they come: query i is head i % group of row i / group.
struct QuerySource {
    const float* q;
    int64_t q_stride;
    int64_t group;
    int64_t n_queries;
    float scale;
};

// The same as the kernels take them, and what they have of the result. The layout is theirs.
struct QueryTile {
    int64_t n_queries;  // a multiple of 16: those of the source, and padding that sees any number of rows
    int64_t head_size;  // a multiple of 16
    float* queries;     // [n_queries * head_size]
    float* out;         // [n_queries * head_size], at first 0
    float* references;  // [n_queries], at first -inf: what is subtracted from the scores
    float* sums;        // [n_queries], at first 0
    float* weights;     // scratch, kTileWeights floats and 4 * head_size
    int32_t* visible;   // [n_queries], how many rows of the block each sees
};
constexpr int64_t kTileWeights = 64 * 48;

// A block of at most 64 cached rows.
struct PackedRows {
    float* keys;        // [64 * head_size]
    float* values;      // [64 * head_size]
    const float* bias;  // [64], added to the scores; NULL: none
};

struct PrefillKernels {
    void (*pack_queries)(const QuerySource& source, const QueryTile& tile);
    // `rows` are those of K; V comes after it, and its scale after that of K.
    void (*pack_rows)(RowType type, const Rows& rows, int64_t head_size, float* keys, float* values);
    void (*attend_rows)(const QueryTile& tile, const PackedRows& rows);
    // out[n_queries][head_size]; references become natural logarithms, as scores are.
    void (*unpack_result)(const QueryTile& tile, int64_t n_queries, float* out);
};

// Partial keys lie in tiles of 16 rows side by side (ops.h), so that a vector holds one column of 16 rows and sums stay
// vertical.
constexpr int64_t kKeyTile = 16;
constexpr int64_t kMostKeyColumns = 512;

enum class KeyFormat : uint32_t { F32 = 0, F16 = 1, I8 = 2, I4 = 3 };
constexpr size_t kKeyFormats = 4;

// Columns of a key that share a 32-bit word of the tile; a tile has whole words, the last padded.
constexpr int64_t key_word_columns(KeyFormat format) {
    return format == KeyFormat::I4 ? 8 : format == KeyFormat::I8 ? 4 : 1;
}
constexpr int64_t padded_columns(KeyFormat format, int64_t n_columns) {
    return (n_columns + key_word_columns(format) - 1) / key_word_columns(format) * key_word_columns(format);
}
constexpr int64_t key_tile_bytes(KeyFormat format, int64_t n_columns) {
    return padded_columns(format, n_columns) / key_word_columns(format) * kKeyTile * (format == KeyFormat::F16 ? 2 : 4);
}

// A query on the columns of partial keys. For integer keys it is cut into two parts of 8 bits,
// step * (255 * high + low): what is lost is at most a 60,000th of its largest value, far less than the keys' rounding.
struct KeyQuery {
    const float* values;  // [columns]
    const int8_t* high;   // [padded_columns], no part is -128
    const int8_t* low;
    int32_t high_start;  // takes the offset of the stored codes back out
    int32_t low_start;
    float step;
};

struct KeyScan {
    const uint8_t* tiles;
    const float* scales;  // [n_rows], of I8
    int64_t n_columns;
    int64_t n_rows;
    const KeyQuery* queries;
    int64_t n_queries;
    float* out;  // [n_queries][out_stride], room for whole tiles; rows that are not there become -inf
    int64_t out_stride;
    float* maxima;                  // [n_queries], raised
    const uint8_t* next = nullptr;  // tiles that are asked for meanwhile, as many as are read here
    const float* next_scales = nullptr;
};

struct Kernels {
    void (*multiply_panels[kPanelFormats])(const PanelTask& task);
    // One row of x to int8: width is a multiple of 32.
    void (*quantise_row)(const float* x, int64_t width, ActivationBlock* blocks);

    // c[m][n] (+)= a[m][k] b[k][n]; b and c are row-major, a has a stride a row and a step a column, in elements.
    void (*multiply)(const float* a, int64_t a_stride, int64_t a_step, const float* b, int64_t b_stride, float* c,
                     int64_t c_stride, int64_t m, int64_t k, int64_t n, bool accumulate);

    // out[q][row] = queries[q] . rows[row][0 .. width), rows of f32.
    void (*score_rows)(const float* queries, int64_t query_stride, int64_t n_queries, const Rows& rows, int64_t width,
                       float* out, int64_t out_stride);
    // out[rows.n][width] = rows in f32; width is a multiple of 16.
    void (*widen_rows)(RowType type, const Rows& rows, int64_t width, float* out);

    // For few queries, by type of row; where `score` is NULL, rows are to be widened to F32 first. Exact: over f32 and f16
    // in f32; over I8 in integers, with 15 bits of a query and 14 of the weights of a call. The other may be in what the
    // level has for narrower rows, and in integers over rows in groups.
    DecodeKernels decode_exact[kRowTypes];
    DecodeKernels decode[kRowTypes];

    // For many queries: over cached rows of f32 in f32, over narrower ones in what the level has for them.
    PrefillKernels prefill_exact;
    PrefillKernels prefill;

    void (*rms_norm)(const float* x, const float* weight, float epsilon, float* out, int64_t n);
    void (*swiglu)(const float* gate, const float* up, float* out, int64_t n);
    void (*rotate_halves)(float* x, const float* cosines, const float* sines, int64_t n_pairs);
    void (*rotate_interleaved)(float* x, const float* cosines, const float* sines, int64_t n_pairs);
    // Returns the scale, an f16: out = nearest of x / scale, in [-127, 127].
    uint16_t (*to_int8)(const float* x, int8_t* out, int64_t n);
    void (*to_f16)(const float* x, uint16_t* out, int64_t n);
    void (*to_bf16)(const float* x, uint16_t* out, int64_t n);
    // Codes of 8 or 4 bits and a scale and minimum for each group, both f16 (ops.h).
    void (*to_groups)(RowType type, const float* x, uint8_t* codes, uint16_t* scales, int64_t n);

    // total[i] += x[i] - shift.
    void (*shift_add)(const float* x, float shift, float* total, int64_t n);
    // absolute[i] += |x|, plain[i] += x, squares[i] += x^2 over rows of x[n_rows][stride], columns [0, n).
    void (*column_sums)(const float* x, int64_t stride, int64_t n_rows, int64_t n, float* absolute, float* plain,
                        float* squares);

    // Rows x[n_rows][n_columns] to partial keys, from row `row` of `tiles` on. steps: written for I8, one a row from `row`
    // on; read for I4, one a column.
    void (*pack_keys[kKeyFormats])(const float* x, int64_t n_rows, int64_t n_columns, float* steps, uint8_t* tiles,
                                   int64_t row);
    // Cuts values[n_columns] into high and low.
    void (*split_query)(KeyFormat format, int64_t n_columns, int8_t* high, int8_t* low, KeyQuery* query);
    void (*scan_keys[kKeyFormats])(const KeyScan& scan);
    // Sum of exp(x[i] - maximum); the largest of x[n] is `maximum`. What is below e^-17 of it is left out.
    float (*sum_of_exponentials)(const float* x, int64_t n, float maximum);
    // out[i] = best (or mean) over queries of raw[query][i] - references[query].
    void (*combine_scores)(const float* raw, int64_t stride, const float* references, int64_t n_queries, bool best,
                           float* out, int64_t n);

    // How many of x[n] lie less than alpha (not strict: or just alpha) below the largest.
    int64_t (*count_near)(const float* x, int64_t n, float alpha, bool strict);
    // The places of the `count` largest of x[n], ascending; of equal ones the lower. count is 1 to n;
    // scratch: select_scratch(n).
    void (*select_largest)(const float* x, int64_t n, int64_t count, int32_t* scratch, int32_t* places);
    // The largest of each part of x[n]: the first `first` values, then `size` by `size`. maxima: one a part.
    void (*part_maxima)(const float* x, int64_t n, int64_t first, int64_t size, float* maxima);
    // log, -inf of 0.
    void (*logarithms)(const int32_t* x, float* out, int64_t n);
};

constexpr int64_t select_scratch(int64_t n) {
    return 3 * (n + 2 * kKeyTile);
}

// One table a level; each stands in a file of its own, which alone is compiled for that instruction set.
const Kernels& kernels_sse4();
const Kernels& kernels_avx2();
const Kernels& kernels_avxvnni();
const Kernels& kernels_avx512();
// avx512bf16 takes the rest from avx512.
const PrefillKernels& prefill_avx512bf16();
const DecodeKernels& decode_avx512bf16();  // of F16 rows

}  // namespace kvplane::cpu
