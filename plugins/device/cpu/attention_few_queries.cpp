// Few query rows, as in decode: the cached rows are read in place, each once for all queries of its head. The heads take
// turns, block by block: so a page is read in the order of its bytes, which the processor does twice as fast as head by
// head, as it runs ahead of one long stream but not of many short ones.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "attention_tile.h"

namespace kvplane::cpu {
namespace {

struct FewQueries {
    FewQueries(const Tile& tile, float* scratch)
        : n(tile.n_queries()),
          d(tile.segments->rows().head_size()),
          packed(reinterpret_cast<uint8_t*>(scratch)),
          queries(scratch + kMultipliedTypes * packed_floats(n, d)),
          scores(queries + padded_queries(n) * d),
          sums(scores + padded_queries(kFewQueries) * kBlockRows),
          visible(reinterpret_cast<int32_t*>(sums + padded_queries(n) * 16)),
          widened(scratch + narrow_floats(n, d)) {}

    static int64_t floats(int64_t n_queries, int64_t d) { return narrow_floats(n_queries, d) + WidenedRows::floats(d); }
    static int64_t narrow_floats(int64_t n_queries, int64_t d) {
        return kMultipliedTypes * packed_floats(n_queries, d) + padded_queries(kFewQueries) * (kBlockRows + 1) +
               padded_queries(n_queries) * (d + 16);
    }
    static int64_t packed_floats(int64_t n_queries, int64_t d) {
        return n_queries * packed_query_bytes(d) / static_cast<int64_t>(sizeof(float));
    }

    // Queries from `first` on; all are packed when the first rows of that type come.
    const void* packed_for(RowType type, const DecodeKernels& kernels, int64_t first) {
        const auto index = static_cast<int64_t>(type);
        uint8_t* at = packed + index * n * packed_query_bytes(d);
        if (!is_packed[index]) kernels.pack_queries(queries, n, d, at);
        is_packed[index] = true;
        return at + first * packed_query_bytes(d);
    }

    int64_t n;
    int64_t d;
    uint8_t* packed;   // [row type][n][packed_query_bytes]
    float* queries;    // [n][d]
    float* scores;     // [queries of a head][kBlockRows]
    float* sums;       // [n][16]
    int32_t* visible;  // [queries of a head]
    WidenedRows widened;
    bool is_packed[kMultipliedTypes] = {};
};

struct HeadBlock {
    int64_t head;
    RowBlock rows;
};

// The blocks of all heads of a tile, in turn.
class HeadsInTurn {
public:
    explicit HeadsInTurn(const Tile& tile) : n_heads_(tile.n_kv_heads) {
        for (int64_t head = 0; head < n_heads_; ++head) {
            cursors_[static_cast<size_t>(head)] = RowCursor(*tile.segments, tile.kv_head + head, tile.first_slot,
                                                            tile.last_slot, tile.first_position + tile.n_rows - 1);
        }
    }

    bool next(HeadBlock& block) {
        for (int64_t tried = 0; tried < n_heads_; ++tried) {
            block.head = turn_;
            turn_ = turn_ + 1 == n_heads_ ? 0 : turn_ + 1;
            RowCursor& cursor = cursors_[static_cast<size_t>(block.head)];
            if (cursor.next(block.rows)) return true;
            missing_ = std::max(missing_, cursor.missing());
        }
        return false;
    }
    int64_t missing() const { return missing_; }

private:
    std::array<RowCursor, kMostTileHeads> cursors_;
    int64_t n_heads_;
    int64_t turn_ = 0;
    int64_t missing_ = -1;
};

}  // namespace

int64_t few_queries_scratch_floats(int64_t n_queries, int64_t head_size) {
    return FewQueries::floats(std::min(n_queries, kFewQueries * kMostTileHeads), head_size);
}

int64_t attend_few_queries(const Kernels& kernels, const Tile& tile, float* scratch, const Partial& partial) {
    FewQueries few(tile, scratch);
    const int64_t d = few.d;
    const int64_t n = tile.head_queries();
    for (int64_t query = 0; query < few.n; ++query) {
        const int64_t head = query / n * tile.group + query % tile.group;
        const float* q = tile.q + query % n / tile.group * tile.q_stride + head * d;
        for (int64_t i = 0; i < d; ++i) few.queries[query * d + i] = q[i] * tile.scale;
    }
    const bool exact = tile.exact_f32 || tile.segments->rows().type() == RowType::F32;
    clear(partial, few.n, d);
    std::fill_n(few.sums, padded_queries(few.n) * 16, 0.0f);

    HeadsInTurn heads(tile);
    HeadBlock blocks[2];
    HeadBlock* now = &blocks[0];
    HeadBlock* later = &blocks[1];
    for (bool more = heads.next(*now); more; std::swap(now, later)) {
        more = heads.next(*later);
        const RowBlock& block = now->rows;
        const RowBlock* following = more ? &later->rows : nullptr;
        const int64_t first = now->head * n;
        const RowType stored = block.layout.type;
        const RowType type = block.layout.is_multiplied() ? stored : RowType::F32;
        const auto part = [&](const Rows& rows) {
            return type == stored ? rows : few.widened.part(kernels, stored, rows, d);
        };
        const auto index = static_cast<size_t>(type);
        const DecodeKernels& decode = exact ? kernels.decode_exact[index] : kernels.decode[index];
        count_visible(block, tile, few.visible);
        decode.score(few.packed_for(type, decode, first), n, part(block.keys(following)), d, few.scores, kBlockRows);
        if (block.biased) {
            for (int64_t q = 0; q < n; ++q) {
                for (int64_t i = 0; i < block.n; ++i) few.scores[q * kBlockRows + i] += block.bias[i];
            }
        }
        float* out = partial.out + first * d;
        decode.softmax(few.scores, kBlockRows, n, few.visible, (block.n + 15) / 16 * 16, partial.maxima + first,
                       few.sums + first * 16, out, d);
        decode.accumulate(few.scores, kBlockRows, n, part(block.values(following)), d, out, d);
    }
    for (int64_t q = 0; q < few.n; ++q) {
        partial.sums[q] = std::accumulate(few.sums + q * 16, few.sums + (q + 1) * 16, 0.0f);
    }
    return heads.missing();
}

}  // namespace kvplane::cpu
