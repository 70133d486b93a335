// The inner loops of the plugin, once per instruction set. Everything above works through this table and is compiled
// for the x86-64 baseline, so that the library loads on any machine.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace kvplane::cpu {

// Weights are packed in panels: 16 output rows side by side, so that a vector holds one position of 16 rows and sums
// stay vertical. See packed_weights.h for the bytes.
constexpr int64_t kPanelRows = 16;
constexpr int64_t kBlock = 32;  // elements that share a scale, in weights and in activations

enum class PanelFormat : uint32_t { F32 = 0, F16 = 1, BF16 = 2, Q8_0 = 3, Q4_0 = 4, Q4_1 = 5 };
constexpr size_t kPanelFormats = 6;

constexpr bool is_quantised(PanelFormat format) {
    return format >= PanelFormat::Q8_0;
}

// 32 activations in int8, x = scale * value, with all that the formats of weights make of their sum, so that a kernel
// only has to load it.
struct ActivationBlock {
    int8_t values[kBlock];
    float scale;
    float scaled_sum;        // scale * sum of values: what a block's minimum is multiplied by
    int32_t minus_128_sums;  // takes the offset of Q8_0 bytes back out
    int32_t minus_8_sums;    // and that of Q4_0 nibbles
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

// Types of the rows that score_rows and accumulate_rows read.
enum class RowType : uint32_t { F32 = 0, F16 = 1, I8 = 2 };

// Rows anywhere in memory. Those that are read next are asked for meanwhile, evenly, as a burst would stall.
struct Rows {
    const uint8_t* const* at;
    int64_t n;
    int64_t offset;  // bytes from each pointer to what is read
    const uint8_t* const* next;
    int64_t n_next;
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
// step * (255 * high + low): a 16th of a millionth of its largest value is lost, far less than the keys' own rounding.
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
    float* maxima;  // [n_queries], raised
};

struct Kernels {
    void (*multiply_panels[kPanelFormats])(const PanelTask& task);
    // One row of x to int8: width is a multiple of 32.
    void (*quantise_row)(const float* x, int64_t width, ActivationBlock* blocks);

    // c[m][n] (+)= a[m][k] b[k][n]; b and c are row-major, a has a stride a row and a step a column, in elements.
    void (*multiply)(const float* a, int64_t a_stride, int64_t a_step, const float* b, int64_t b_stride, float* c,
                     int64_t c_stride, int64_t m, int64_t k, int64_t n, bool accumulate);

    // out[q][row] = queries[q] . rows[row][0 .. width), rows of `type`.
    void (*score_rows)(RowType type, const float* queries, int64_t query_stride, int64_t n_queries, const Rows& rows,
                       int64_t width, float* out, int64_t out_stride);
    // out[q][0 .. width) += weights[q][row] * rows[row][0 .. width); width is a multiple of 16.
    void (*accumulate_rows)(RowType type, const float* weights, int64_t weight_stride, int64_t n_queries,
                            const Rows& rows, int64_t width, float* out, int64_t out_stride);
    // out[rows.n][width] = rows in f32; width is a multiple of 16.
    void (*widen_rows)(RowType type, const Rows& rows, int64_t width, float* out);
    // One block of an online softmax: scores[q][0 .. visible[q]) become exp(score - new maximum), the rest up to n 0;
    // sums and out[q][0 .. width) go on from the old maximum. Scores of -inf count nothing. n is a multiple of 16.
    void (*softmax_rows)(float* scores, int64_t score_stride, int64_t n_queries, const int32_t* visible, int64_t n,
                         float* maxima, float* sums, float* out, int64_t width);
    // The same of scores[n][n_queries] with the queries side by side: n_queries a multiple of 16, those from n_out on
    // are padding without out.
    void (*softmax_columns)(float* scores, int64_t n_queries, const int32_t* visible, int64_t n, float* maxima,
                            float* sums, float* out, int64_t n_out, int64_t width);

    void (*rms_norm)(const float* x, const float* weight, float epsilon, float* out, int64_t n);
    void (*swiglu)(const float* gate, const float* up, float* out, int64_t n);
    void (*rotate_halves)(float* x, const float* cosines, const float* sines, int64_t n_pairs);
    void (*rotate_interleaved)(float* x, const float* cosines, const float* sines, int64_t n_pairs);
    void (*to_f16)(const float* x, uint16_t* out, int64_t n);
    void (*from_f16)(const uint16_t* x, float* out, int64_t n);

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
    // out[i] = best (or mean) over queries of raw[query][i] - maxima[query].
    void (*combine_scores)(const float* raw, int64_t stride, const float* maxima, int64_t n_queries, bool best,
                           float* out, int64_t n);

    // How many of x[n] lie less than alpha (not strict: or just alpha) below the largest.
    int64_t (*count_near)(const float* x, int64_t n, float alpha, bool strict);
    // The places of the `count` largest of x[n], ascending; of equal ones the lower. count is 1 to n;
    // scratch: select_scratch(n).
    void (*select_largest)(const float* x, int64_t n, int64_t count, int32_t* scratch, int32_t* places);
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

}  // namespace kvplane::cpu
