// Products with packed weights. A tile is R rows of activations by V vectors of weight rows; all sums are vertical, one
// lane a weight row, so nothing is added across lanes. Panel bytes: packed_weights.h.
#pragma once

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

constexpr int64_t kPanelVectors = kPanelRows / kLanes;

// Vectors of weight rows that a tile works on: vector v of it is `first + v * apart` of those of a run of panels. One row
// of activations takes vectors that are far apart where a vector is a whole panel: then each walks a run of memory of
// its own from end to end, which the processor sees coming.
struct VectorRun {
    int64_t first;
    int64_t apart;

    int64_t at(int v) const { return first + v * apart; }
};

// Where vector `index` of a run of panels begins.
struct PanelPlace {
    const uint8_t* panel;
    int64_t lane;  // first row of the vector inside the panel
};

HWY_INLINE PanelPlace panel_place(const PanelTask& task, int64_t index) {
    return {task.panels + index / kPanelVectors * task.panel_bytes, index % kPanelVectors * kLanes};
}

// Asks for weights ahead of the tile at `row`. The only tile of a panel asks for what it reads itself soon; where a panel
// is read once more by each of several tiles, they ask for the next panel together.
class WeightPrefetch {
public:
    HWY_INLINE WeightPrefetch(const PanelTask& task, int64_t row)
        : index_((row - task.row_begin) / Level::kTileRows),
          n_tiles_((task.row_end - task.row_begin + Level::kTileRows - 1) / Level::kTileRows),
          panel_bytes_(task.panel_bytes) {}

    // `bytes` of each vector's panel from where it is now, or `ahead` of there.
    template <int V>
    HWY_INLINE void ask(const uint8_t* const (&at)[V], int64_t bytes, int64_t ahead) const {
        if (n_tiles_ > 1) {
            for (int64_t line = index_ * 64; line < bytes; line += n_tiles_ * 64) {
                _mm_prefetch(reinterpret_cast<const char*>(at[0] + panel_bytes_ + line), _MM_HINT_T1);
            }
            return;
        }
        for (int v = 0; v < V; v += static_cast<int>(kPanelVectors)) {
            for (int64_t line = 0; line < bytes; line += 64) {
                _mm_prefetch(reinterpret_cast<const char*>(at[v] + ahead + line), _MM_HINT_T0);
            }
        }
    }

private:
    int64_t index_;
    int64_t n_tiles_;
    int64_t panel_bytes_;
};

HWY_INLINE Level::Words broadcast4(const int8_t* p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return Level::set(word);
}

HWY_INLINE F to_float(Level::Words words) {
    return hn::ConvertTo(kF, hn::Vec<D32>{words});
}

// Bytes of a block of 16 rows: quants, then scales (and minima).
template <PanelFormat kFormat>
struct BlockLayout {
    static constexpr int64_t kSteps = kFormat == PanelFormat::Q8_0 ? 8 : 4;
    static constexpr int64_t kScales = kSteps * 4 * kPanelRows;
    static constexpr int64_t kMinima = kScales + 2 * kPanelRows;
    static constexpr int64_t kBytes = kMinima + (kFormat == PanelFormat::Q4_1 ? 2 * kPanelRows : 0);
};

// One block of 32: integer dots of R rows with V vectors, without the offset of the stored weights.
template <PanelFormat kFormat, int R, int V>
HWY_INLINE void block_dots(const uint8_t* const (&weights)[V], const ActivationBlock* const (&rows)[R], int64_t block,
                           Level::Words (&dots)[R][V]) {
    int32_t bias[R];
    for (int r = 0; r < R; ++r) {
        const ActivationBlock& a = rows[r][block];
        bias[r] = kFormat == PanelFormat::Q4_0 ? a.minus_8_sums : kFormat == PanelFormat::Q8_0 ? a.minus_128_sums : 0;
        for (int v = 0; v < V; ++v) {
            dots[r][v] = kFormat == PanelFormat::Q8_0 ? Level::start8(bias[r]) : Level::start4(bias[r]);
        }
    }
    if constexpr (kFormat == PanelFormat::Q8_0) {
#pragma GCC unroll 8
        for (int64_t step = 0; step < 8; ++step) {
            for (int v = 0; v < V; ++v) {
                const auto w = Level::load(weights[v] + step * 4 * kPanelRows);
                for (int r = 0; r < R; ++r) {
                    dots[r][v] = Level::dot8(dots[r][v], w, broadcast4(rows[r][block].values + step * 4));
                }
            }
        }
    } else {
#pragma GCC unroll 4
        for (int64_t step = 0; step < 4; ++step) {
            for (int v = 0; v < V; ++v) {
                const auto both = Level::load(weights[v] + step * 4 * kPanelRows);
                const auto low = Level::low_nibbles(both);
                const auto high = Level::high_nibbles(both);
                for (int r = 0; r < R; ++r) {
                    dots[r][v] = Level::dot4(dots[r][v], low, broadcast4(rows[r][block].values + step * 8));
                }
                for (int r = 0; r < R; ++r) {
                    dots[r][v] = Level::dot4(dots[r][v], high, broadcast4(rows[r][block].values + step * 8 + 4));
                }
            }
        }
        for (int r = 0; r < R; ++r) {
            for (int v = 0; v < V; ++v) dots[r][v] = Level::finish4(dots[r][v], bias[r]);
        }
    }
}

template <int R, int V>
HWY_INLINE void store_tile(const F (&total)[R][V], const PanelTask& task, VectorRun vectors, int64_t row) {
    for (int r = 0; r < R; ++r) {
        float* out = task.out + (row + r) * task.out_stride;
        for (int v = 0; v < V; ++v) {
            const int64_t column = vectors.at(v) * kLanes;
            store_columns(total[r][v], out + column, task.n_columns - column, task.accumulate);
        }
    }
}

template <PanelFormat kFormat, int R, int V>
HWY_INLINE void quantised_tile(const PanelTask& task, VectorRun vectors, int64_t row) {
    using Layout = BlockLayout<kFormat>;
    const int64_t n_blocks = task.in.width / kBlock;

    const uint8_t* weights[V];
    int64_t lane[V];
    for (int v = 0; v < V; ++v) {
        const PanelPlace place = panel_place(task, vectors.at(v));
        weights[v] = place.panel + place.lane * 4;
        lane[v] = place.lane;
    }
    const ActivationBlock* rows[R];
    for (int r = 0; r < R; ++r) rows[r] = task.in.blocks + (row + r) * n_blocks;

    const WeightPrefetch prefetch(task, row);
    F total[R][V];
    for (int r = 0; r < R; ++r) {
        for (int v = 0; v < V; ++v) total[r][v] = hn::Zero(kF);
    }
    for (int64_t block = 0; block < n_blocks; ++block) {
        prefetch.ask(weights, Layout::kBytes, Level::kPrefetchBytes);
        Level::Words dots[R][V];
        block_dots<kFormat, R, V>(weights, rows, block, dots);
        for (int v = 0; v < V; ++v) {
            const auto* scales =
                reinterpret_cast<const hwy::float16_t*>(weights[v] + Layout::kScales - 4 * lane[v]) + lane[v];
            const F scale = load(scales);
            for (int r = 0; r < R; ++r) {
                const F factor = hn::Mul(scale, set(rows[r][block].scale));
                total[r][v] = hn::MulAdd(to_float(dots[r][v]), factor, total[r][v]);
            }
            if constexpr (kFormat == PanelFormat::Q4_1) {
                const F minimum = load(scales + kPanelRows);
                for (int r = 0; r < R; ++r) {
                    total[r][v] = hn::MulAdd(minimum, set(rows[r][block].scaled_sum), total[r][v]);
                }
            }
            weights[v] += Layout::kBytes;
        }
    }
    store_tile<R, V>(total, task, vectors, row);
}

template <typename T, int R, int V>
HWY_INLINE void float_tile(const PanelTask& task, VectorRun vectors, int64_t row) {
    constexpr int kSplit = R * V >= 4 ? 1 : 4;  // independent sums, where one row alone would wait for each FMA
    const T* weights[V];
    for (int v = 0; v < V; ++v) {
        const PanelPlace place = panel_place(task, vectors.at(v));
        weights[v] = reinterpret_cast<const T*>(place.panel) + place.lane;
    }
    const float* x[R];
    for (int r = 0; r < R; ++r) x[r] = task.in.x + (row + r) * task.in.width;
    F total[kSplit][R][V];
    for (int s = 0; s < kSplit; ++s) {
        for (int r = 0; r < R; ++r) {
            for (int v = 0; v < V; ++v) total[s][r][v] = hn::Zero(kF);
        }
    }
    int64_t i = 0;
    for (; i + kSplit <= task.in.width; i += kSplit) {
        for (int s = 0; s < kSplit; ++s) {
            for (int v = 0; v < V; ++v) {
                const F w = load(weights[v] + (i + s) * kPanelRows);
                for (int r = 0; r < R; ++r) total[s][r][v] = hn::MulAdd(w, set(x[r][i + s]), total[s][r][v]);
            }
        }
    }
    for (; i < task.in.width; ++i) {
        for (int v = 0; v < V; ++v) {
            const F w = load(weights[v] + i * kPanelRows);
            for (int r = 0; r < R; ++r) total[0][r][v] = hn::MulAdd(w, set(x[r][i]), total[0][r][v]);
        }
    }
    for (int s = 1; s < kSplit; ++s) {
        for (int r = 0; r < R; ++r) {
            for (int v = 0; v < V; ++v) total[0][r][v] = hn::Add(total[0][r][v], total[s][r][v]);
        }
    }
    store_tile<R, V>(total[0], task, vectors, row);
}

template <PanelFormat kFormat, int R, int V>
HWY_INLINE void tile(const PanelTask& task, VectorRun vectors, int64_t row) {
    if constexpr (kFormat == PanelFormat::F32) {
        float_tile<float, R, V>(task, vectors, row);
    } else if constexpr (kFormat == PanelFormat::F16) {
        float_tile<hwy::float16_t, R, V>(task, vectors, row);
    } else if constexpr (kFormat == PanelFormat::BF16) {
        float_tile<hwy::bfloat16_t, R, V>(task, vectors, row);
    } else {
        quantised_tile<kFormat, R, V>(task, vectors, row);
    }
}

// As many whole tiles of R rows as there are, then the rest with one tile of its own height.
template <PanelFormat kFormat, int R>
HWY_INLINE void row_tiles(const PanelTask& task, int64_t vector, int64_t row) {
    for (; row + R <= task.row_end; row += R) tile<kFormat, R, 1>(task, {vector, 1}, row);
    if constexpr (R > 1) {
        if (row < task.row_end) row_tiles<kFormat, R - 1>(task, vector, row);
    }
}

template <PanelFormat kFormat>
void multiply_panels(const PanelTask& task) {
    const int64_t n_vectors = (task.n_columns + kLanes - 1) / kLanes;
    int64_t vector = 0;
    if (task.row_end - task.row_begin == 1) {
        constexpr int V = Level::kSingleRowVectors;
        const int64_t apart = kPanelVectors == 1 ? n_vectors / V : 1;
        const int64_t step = kPanelVectors == 1 ? 1 : V;
        for (int64_t i = 0; i < n_vectors / V; ++i) tile<kFormat, 1, V>(task, {i * step, apart}, task.row_begin);
        vector = n_vectors / V * V;
    }
    for (; vector < n_vectors; ++vector) row_tiles<kFormat, Level::kTileRows>(task, vector, task.row_begin);
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
