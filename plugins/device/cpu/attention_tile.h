// Attention of some query rows over a run of slots, by an online softmax over blocks of rows.
#pragma once

#include "segment_rows.h"

namespace kvplane::cpu {

// M queries: row r of the tile and head h of the group of the tile's KV head g are query (g * n_rows + r) * group + h.
struct Tile {
    const Segments* segments;
    int64_t kv_head;     // the first
    int64_t n_kv_heads;  // 1 where there are many queries
    int64_t group;       // query heads a KV head
    int64_t n_rows;
    int64_t first_position;  // cached row of the tile's first query row
    int64_t first_slot;
    int64_t last_slot;
    const float* q;  // [n_rows][q_stride], at the first head of the first group
    int64_t q_stride;
    float scale;
    bool exact_f32;

    int64_t head_queries() const { return n_rows * group; }
    int64_t n_queries() const { return n_kv_heads * head_queries(); }
};

// Unnormalised result of M queries.
struct Partial {
    float* out;     // [M][head_size], sum of exp(score - maximum) * v
    float* maxima;  // [padded_queries(M)], the maximum or a score that serves as well; -inf where no row was seen
    float* sums;    // [padded_queries(M)]
};

constexpr int64_t padded_queries(int64_t n) {
    return (n + 15) / 16 * 16;
}

// Of a KV head. Up to here the cached rows are read in place; beyond, a block of them is unpacked once for all queries.
constexpr int64_t kFewQueries = 8;
// Of few queries: those take the heads of a page in turn, so that the page is read from its begin to its end.
constexpr int64_t kMostTileHeads = 8;

// Floats that attend needs besides its result.
int64_t tile_scratch_floats(int64_t n_queries, int64_t head_size);

// Returns the cached row that could not be read, or -1.
int64_t attend(const Kernels& kernels, const Tile& tile, float* scratch, const Partial& partial);

// The two ways of it.
int64_t few_queries_scratch_floats(int64_t n_queries, int64_t head_size);
int64_t attend_few_queries(const Kernels& kernels, const Tile& tile, float* scratch, const Partial& partial);
int64_t many_queries_scratch_floats(int64_t n_queries, int64_t head_size);
int64_t attend_many_queries(const Kernels& kernels, const Tile& tile, float* scratch, const Partial& partial);

// Rows of a type that no kernel multiplies, as f32 ones.
class WidenedRows {
public:
    static int64_t floats(int64_t head_size) { return kBlockRows * 2 * head_size; }
    explicit WidenedRows(float* scratch) : scratch_(scratch) {}

    // K or V of a block, of which `rows` are that part.
    Rows part(const Kernels& kernels, RowType type, const Rows& rows, int64_t head_size);
    // K||V.
    Rows whole(const Kernels& kernels, const RowBlock& block);

private:
    float* scratch_;
    const uint8_t* rows_[kBlockRows];
};

// What both begin with: how many rows of the block each query sees (tokens ascend, so it is the first so many), and a
// result of no rows.
void count_visible(const RowBlock& block, const Tile& tile, int32_t* visible);
void clear(const Partial& partial, int64_t n_queries, int64_t head_size);

}  // namespace kvplane::cpu
