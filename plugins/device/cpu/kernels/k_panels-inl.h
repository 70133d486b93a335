// Products with packed K-quants: integer dots over a sub-block, weighed by its scale in f32. Panel bytes:
// packed_k_weights.h; tiles and sums are those of panels-inl.h.
#pragma once

#include "kernels/k_panel_layout.h"
#include "kernels/panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

// Tiles of many rows: what 32 or 16 registers hold.
constexpr int kKTileRows = kLanes == 16 ? 6 : 4;
constexpr int kKTileVectors = kLanes == 16 ? 2 : 1;
constexpr int64_t kKPrefetchBytes = 2048;  // most of a super-block

HWY_INLINE F load(const uint8_t* p) {
    return hn::ConvertTo(kF, hn::PromoteTo(kI32, hn::LoadU(hn::Rebind<uint8_t, D>(), p)));
}

// The panels of V vectors, at one super-block.
template <int V>
struct KPlaces {
    const uint8_t* panel[V];
    int64_t lane[V];

    HWY_INLINE const uint8_t* words(int v, int64_t offset) const { return panel[v] + offset + lane[v] * 4; }
    HWY_INLINE const uint8_t* bytes(int v, int64_t offset) const { return panel[v] + offset + lane[v]; }
    HWY_INLINE F half(int v, int64_t offset) const {
        return load(reinterpret_cast<const hwy::float16_t*>(panel[v] + offset) + lane[v]);
    }
};

// Four elements of each row: a nibble of `both`, and above it what is theirs of `high`.
template <PanelFormat kFormat, int kStep>
HWY_INLINE Level::Words k_weights(Level::Words both, Level::Words high) {
    const auto nibbles = kStep % 2 == 0 ? Level::low_nibbles(both) : Level::high_nibbles(both);
    if constexpr (kFormat == PanelFormat::Q4_K) {
        return nibbles;
    } else {
        const hn::Repartition<uint16_t, D> wide;
        constexpr int kBits = k_panel_layout(kFormat).high_bits;
        constexpr int kShift = 4 - kBits * (kStep % (8 / kBits));  // to the left
        const hn::Vec<decltype(wide)> bits{high};
        const auto mask = hn::Set(wide, kBits == 1 ? 0x1010 : 0x3030);
        const hn::Vec<decltype(wide)> low{nibbles};
        if constexpr (kShift >= 0) {
            return hn::OrAnd(low, hn::ShiftLeft<kShift>(bits), mask).raw;
        } else {
            return hn::OrAnd(low, hn::ShiftRight<-kShift>(bits), mask).raw;
        }
    }
}

// Steps kStep and kStep + 1 of a block of 32, which share a vector of nibbles.
template <PanelFormat kFormat, int kStep, int R, int V>
HWY_INLINE void k_two_steps(const KPlaces<V>& places, int64_t block, const Level::Words (&high)[V],
                            const ActivationBlock* const (&rows)[R], Level::Words (&dots)[R][V]) {
    Level::Words first[V];
    Level::Words second[V];
    for (int v = 0; v < V; ++v) {
        const auto both = Level::load(places.words(v, (block * 4 + kStep / 2) * 4 * kPanelRows));
        first[v] = k_weights<kFormat, kStep>(both, high[v]);
        second[v] = k_weights<kFormat, kStep + 1>(both, high[v]);
    }
    for (int r = 0; r < R; ++r) {
        const auto x = broadcast4(rows[r][block].values + kStep * 4);
        const auto y = broadcast4(rows[r][block].values + kStep * 4 + 4);
        for (int v = 0; v < V; ++v) {
            if constexpr (kFormat == PanelFormat::Q4_K) {
                dots[r][v] = Level::dot4(Level::dot4(dots[r][v], first[v], x), second[v], y);
            } else {
                dots[r][v] = Level::dot6(dots[r][v], first[v], x, second[v], y);
            }
        }
    }
}

// One sub-block of 32 of Q4_K or Q5_K; `rows` at the super-block's first block.
template <PanelFormat kFormat, int R, int V>
HWY_INLINE void k_block_with_minimum(const KPlaces<V>& places, int64_t block, const F (&d)[V], const F (&d_minimum)[V],
                                     const ActivationBlock* const (&rows)[R], F (&total)[R][V]) {
    constexpr KPanelLayout kLayout = k_panel_layout(kFormat);
    constexpr bool kFour = kFormat == PanelFormat::Q4_K;
    Level::Words dots[R][V];
    Level::Words high[V];
    for (int v = 0; v < V; ++v) {
        high[v] = kFour ? Level::zero() : Level::load(places.words(v, kLayout.high + block * 4 * kPanelRows));
        for (int r = 0; r < R; ++r) dots[r][v] = kFour ? Level::start4(0) : Level::zero();
    }
    k_two_steps<kFormat, 0>(places, block, high, rows, dots);
    k_two_steps<kFormat, 2>(places, block, high, rows, dots);
    k_two_steps<kFormat, 4>(places, block, high, rows, dots);
    k_two_steps<kFormat, 6>(places, block, high, rows, dots);
    for (int v = 0; v < V; ++v) {
        const F scale = hn::Mul(d[v], load(places.bytes(v, kLayout.scales + block * kPanelRows)));
        const F minimum = hn::Mul(d_minimum[v], load(places.bytes(v, kLayout.minima + block * kPanelRows)));
        for (int r = 0; r < R; ++r) {
            const auto sum = kFour ? Level::finish4(dots[r][v], 0) : dots[r][v];
            const F factor = hn::Mul(scale, set(rows[r][block].scale));
            total[r][v] = hn::MulAdd(to_float(sum), factor, total[r][v]);
            total[r][v] = hn::NegMulAdd(minimum, set(rows[r][block].scaled_sum), total[r][v]);
        }
    }
}

// Two sub-blocks of 16 of Q6_K, which share the activations' scale.
template <int kHalf, int R, int V>
HWY_INLINE void q6_half(const KPlaces<V>& places, int64_t block, const F (&d)[V],
                        const ActivationBlock* const (&rows)[R], F (&sums)[R][V]) {
    constexpr KPanelLayout kLayout = k_panel_layout(PanelFormat::Q6_K);
    Level::Words dots[R][V];
    Level::Words high[V];
    for (int v = 0; v < V; ++v) {
        high[v] = Level::load(places.words(v, kLayout.high + (block * 2 + kHalf) * 4 * kPanelRows));
        for (int r = 0; r < R; ++r) dots[r][v] = Level::set(rows[r][block].minus_32_sums[kHalf]);
    }
    k_two_steps<PanelFormat::Q6_K, kHalf * 4>(places, block, high, rows, dots);
    k_two_steps<PanelFormat::Q6_K, kHalf * 4 + 2>(places, block, high, rows, dots);
    for (int v = 0; v < V; ++v) {
        const auto scales =
            reinterpret_cast<const int8_t*>(places.bytes(v, kLayout.scales + (block * 2 + kHalf) * kPanelRows));
        const F scale = hn::Mul(d[v], load(scales));
        for (int r = 0; r < R; ++r) {
            const F dot = to_float(dots[r][v]);
            sums[r][v] = kHalf == 0 ? hn::Mul(dot, scale) : hn::MulAdd(dot, scale, sums[r][v]);
        }
    }
}

template <PanelFormat kFormat, int R, int V>
HWY_INLINE void k_tile(const PanelTask& task, int64_t vector, int64_t row) {
    constexpr KPanelLayout kLayout = k_panel_layout(kFormat);
    constexpr int64_t kBlocks = kSuperBlock / kBlock;
    constexpr int64_t kShare = (kLayout.bytes / 64 + kBlocks - 1) / kBlocks * 64;  // of a super-block's bytes, a block
    const int64_t n_blocks = task.in.width / kBlock;
    const WeightPrefetch prefetch(task, row);

    KPlaces<V> places;
    for (int v = 0; v < V; ++v) {
        const PanelPlace place = panel_place(task, vector + v);
        places.panel[v] = place.panel;
        places.lane[v] = place.lane;
    }
    const ActivationBlock* rows[R];
    for (int r = 0; r < R; ++r) rows[r] = task.in.blocks + (row + r) * n_blocks;
    F total[R][V];
    for (int r = 0; r < R; ++r) {
        for (int v = 0; v < V; ++v) total[r][v] = hn::Zero(kF);
    }
    for (int64_t done = 0; done < n_blocks; done += kBlocks) {
        F d[V];
        F d_minimum[V];
        for (int v = 0; v < V; ++v) {
            d[v] = places.half(v, kLayout.d);
            if constexpr (kLayout.has_minima) d_minimum[v] = places.half(v, kLayout.d_minimum);
        }
        for (int64_t block = 0; block < kBlocks; ++block) {
            const uint8_t* at[V];
            for (int v = 0; v < V; ++v) at[v] = places.panel[v] + block * kShare;
            prefetch.ask(at, kShare, kKPrefetchBytes);
            if constexpr (kFormat == PanelFormat::Q6_K) {
                F sums[R][V];
                q6_half<0>(places, block, d, rows, sums);
                q6_half<1>(places, block, d, rows, sums);
                for (int r = 0; r < R; ++r) {
                    for (int v = 0; v < V; ++v) {
                        total[r][v] = hn::MulAdd(sums[r][v], set(rows[r][block].scale), total[r][v]);
                    }
                }
            } else {
                k_block_with_minimum<kFormat>(places, block, d, d_minimum, rows, total);
            }
        }
        for (int v = 0; v < V; ++v) places.panel[v] += kLayout.bytes;
        for (int r = 0; r < R; ++r) rows[r] += kBlocks;
    }
    store_tile<R, V>(total, task, {vector, 1}, row);
}

template <PanelFormat kFormat, int R, int V>
HWY_INLINE void k_row_tiles(const PanelTask& task, int64_t vector, int64_t row) {
    for (; row + R <= task.row_end; row += R) k_tile<kFormat, R, V>(task, vector, row);
    if constexpr (R > 1) {
        if (row < task.row_end) k_row_tiles<kFormat, R - 1, V>(task, vector, row);
    }
}

template <PanelFormat kFormat>
void multiply_k_panels(const PanelTask& task) {
    const int64_t n_vectors = (task.n_columns + kLanes - 1) / kLanes;
    int64_t vector = 0;
    if (task.row_end - task.row_begin == 1) {
        // One panel at a time: a run of memory that the processor reads ahead by itself; of two it reads a fifth less.
        constexpr int kVectors = kPanelVectors == 1 ? 1 : 2;
        for (; vector + kVectors <= n_vectors; vector += kVectors) {
            k_tile<kFormat, 1, kVectors>(task, vector, task.row_begin);
        }
    }
    for (; vector + kKTileVectors <= n_vectors; vector += kKTileVectors) {
        k_row_tiles<kFormat, kKTileRows, kKTileVectors>(task, vector, task.row_begin);
    }
    for (; vector < n_vectors; ++vector) k_row_tiles<kFormat, kKTileRows, 1>(task, vector, task.row_begin);
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
