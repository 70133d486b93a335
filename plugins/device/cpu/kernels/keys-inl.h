// Partial keys: rows of f32 to tiles, and the scores of a group's queries against all rows of a KV head.
#pragma once

#include "kernels/exp2-inl.h"
#include "kernels/panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

using I = hn::Vec<D32>;
constexpr int64_t kTileVectors = kKeyTile / kLanes;

// ---- rows to tiles ----

HWY_INLINE float largest_magnitude(const float* x, int64_t n) {
    F lanes = hn::Zero(kF);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) lanes = hn::Max(lanes, hn::Abs(load(x + i)));
    float most = hn::GetLane(hn::MaxOfLanes(kF, lanes));
    for (; i < n; ++i) most = __builtin_fabsf(x[i]) > most ? __builtin_fabsf(x[i]) : most;
    return most;
}

// codes[i] = x[i] * inverse(i) to the nearest integer, ties to even, within [least, most], plus the offset.
template <typename Inverse>
HWY_INLINE void round_to_codes(const float* x, int64_t n, Inverse inverse, float least, float most, float offset,
                               uint8_t* codes) {
    const hn::Rebind<uint8_t, D> bytes;
    const auto round = [&](F value, F factor) {
        const F code = hn::Min(hn::Max(hn::Mul(value, factor), set(least)), set(most));
        return hn::NearestInt(hn::Add(hn::Round(code), set(offset)));
    };
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        hn::StoreU(hn::DemoteTo(bytes, round(load(x + i), inverse(i, kLanes))), bytes, codes + i);
    }
    if (i == n) return;
    alignas(64) float rest[kLanes] = {};
    alignas(64) uint8_t rounded[kLanes];
    for (int64_t j = 0; i + j < n; ++j) rest[j] = x[i + j];
    hn::StoreU(hn::DemoteTo(bytes, round(load(rest), inverse(i, n - i))), bytes, rounded);
    for (int64_t j = 0; i + j < n; ++j) codes[i + j] = rounded[j];
}

// The first `n` lanes' inverses; a step of 0 has the inverse 0.
HWY_INLINE F inverses(const float* steps, int64_t n) {
    alignas(64) float lanes[kLanes] = {};
    for (int64_t j = 0; j < n && j < kLanes; ++j) lanes[j] = steps[j];
    const F step = load(lanes);
    return hn::IfThenElseZero(hn::Gt(step, hn::Zero(kF)), hn::Div(set(1.0f), step));
}

template <KeyFormat kFormat>
void pack_keys(const float* x, int64_t n_rows, int64_t n_columns, float* steps, uint8_t* tiles, int64_t row) {
    const int64_t tile_bytes = key_tile_bytes(kFormat, n_columns);
    [[maybe_unused]] uint8_t codes[kMostKeyColumns];
    for (int64_t i = 0; i < n_rows; ++i, ++row, x += n_columns) {
        uint8_t* tile = tiles + row / kKeyTile * tile_bytes;
        const int64_t lane = row % kKeyTile;
        if constexpr (kFormat == KeyFormat::F32) {
            for (int64_t c = 0; c < n_columns; ++c) reinterpret_cast<float*>(tile)[c * kKeyTile + lane] = x[c];
        } else if constexpr (kFormat == KeyFormat::F16) {
            uint16_t narrow[kMostKeyColumns];
            to_f16(x, narrow, n_columns);
            for (int64_t c = 0; c < n_columns; ++c) reinterpret_cast<uint16_t*>(tile)[c * kKeyTile + lane] = narrow[c];
        } else if constexpr (kFormat == KeyFormat::I8) {
            const float step = largest_magnitude(x, n_columns) / 127;
            steps[row] = step;
            const F inverse = set(step > 0 ? 1 / step : 0.0f);
            round_to_codes(
                x, n_columns, [&](int64_t, int64_t) { return inverse; }, -127, 127, 128, codes);
            for (int64_t c = n_columns; c < padded_columns(kFormat, n_columns); ++c) codes[c] = 128;
            for (int64_t c = 0; c < n_columns; c += 4) memcpy(tile + c * kKeyTile + lane * 4, codes + c, 4);
        } else {
            round_to_codes(
                x, n_columns, [&](int64_t c, int64_t n) { return inverses(steps + c, n); }, -8, 7, 8, codes);
            for (int64_t c = n_columns; c < padded_columns(kFormat, n_columns); ++c) codes[c] = 8;
            for (int64_t c = 0; c < n_columns; c += 8) {
                uint32_t low;
                uint32_t high;
                memcpy(&low, codes + c, 4);
                memcpy(&high, codes + c + 4, 4);
                const uint32_t word = low | high << 4;
                memcpy(tile + c / 2 * kKeyTile + lane * 4, &word, 4);
            }
        }
    }
}

// ---- queries ----

void split_query(KeyFormat format, int64_t n_columns, int8_t* high, int8_t* low, KeyQuery* query) {
    const hn::Rebind<int8_t, D> bytes;
    query->high = high;
    query->low = low;
    query->step = largest_magnitude(query->values, n_columns) / (127 * 255);
    const F inverse = set(query->step > 0 ? 1 / query->step : 0.0f);
    I high_sum = hn::Zero(kI32);
    I low_sum = hn::Zero(kI32);
    alignas(64) float rest[kLanes] = {};
    alignas(64) int8_t parts[2][kLanes];
    const int64_t padded = padded_columns(format, n_columns);
    for (int64_t i = 0; i < padded; i += kLanes) {
        const float* x = query->values + i;
        if (i + kLanes > n_columns) {
            for (int64_t j = 0; j < kLanes; ++j) rest[j] = i + j < n_columns ? x[j] : 0.0f;
            x = rest;
        }
        const F whole = hn::Round(hn::Mul(load(x), inverse));
        const F upper = hn::Round(hn::Mul(whole, set(1.0f / 255)));
        const I high_part = hn::NearestInt(upper);
        const I low_part = hn::NearestInt(hn::NegMulAdd(upper, set(255), whole));
        high_sum = hn::Add(high_sum, high_part);
        low_sum = hn::Add(low_sum, low_part);
        hn::StoreU(hn::DemoteTo(bytes, high_part), bytes, parts[0]);
        hn::StoreU(hn::DemoteTo(bytes, low_part), bytes, parts[1]);
        for (int64_t j = 0; j < kLanes && i + j < padded; ++j) {
            high[i + j] = parts[0][j];
            low[i + j] = parts[1][j];
        }
    }
    const int32_t offset = format == KeyFormat::I4 ? 8 : 128;
    query->high_start = -offset * hn::GetLane(hn::SumOfLanes(kI32, high_sum));
    query->low_start = -offset * hn::GetLane(hn::SumOfLanes(kI32, low_sum));
}

// ---- the scan ----

// Scores of Q queries and V vectors of rows; places[v]: the vector's lanes of the first column.
template <int Q, int V>
HWY_INLINE void score_codes8(const KeyQuery* queries, const uint8_t* const (&places)[V], int64_t n_words,
                             F (&scores)[Q][V]) {
    Level::Words high[Q][V];
    Level::Words low[Q][V];
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) {
            high[q][v] = Level::start8(queries[q].high_start);
            low[q][v] = Level::start8(queries[q].low_start);
        }
    }
    for (int64_t word = 0; word < n_words; ++word) {
        Level::Words keys[V];
        for (int v = 0; v < V; ++v) keys[v] = Level::load(places[v] + word * 4 * kKeyTile);
        for (int q = 0; q < Q; ++q) {
            const auto high_part = broadcast4(queries[q].high + word * 4);
            const auto low_part = broadcast4(queries[q].low + word * 4);
            for (int v = 0; v < V; ++v) high[q][v] = Level::dot8(high[q][v], keys[v], high_part);
            for (int v = 0; v < V; ++v) low[q][v] = Level::dot8(low[q][v], keys[v], low_part);
        }
    }
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) {
            const F sum = hn::MulAdd(to_float(high[q][v]), set(255), to_float(low[q][v]));
            scores[q][v] = hn::Mul(sum, set(queries[q].step));
        }
    }
}

template <int Q, int V>
HWY_INLINE void score_codes4(const KeyQuery* queries, const uint8_t* const (&places)[V], int64_t n_words,
                             F (&scores)[Q][V]) {
    constexpr int64_t kMostWords = 4;  // 8 steps of four columns, what finish4 of every level may be given
    I high[Q][V];
    I low[Q][V];
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) {
            high[q][v] = hn::Set(kI32, queries[q].high_start);
            low[q][v] = hn::Set(kI32, queries[q].low_start);
        }
    }
    for (int64_t first = 0; first < n_words; first += kMostWords) {
        const int64_t end = first + kMostWords < n_words ? first + kMostWords : n_words;
        Level::Words part[2][Q][V];
        for (int q = 0; q < Q; ++q) {
            for (int v = 0; v < V; ++v) part[0][q][v] = part[1][q][v] = Level::start4(0);
        }
        for (int64_t word = first; word < end; ++word) {
            Level::Words keys[2][V];
            for (int v = 0; v < V; ++v) {
                const auto both = Level::load(places[v] + word * 4 * kKeyTile);
                keys[0][v] = Level::low_nibbles(both);
                keys[1][v] = Level::high_nibbles(both);
            }
            for (int half = 0; half < 2; ++half) {
                for (int q = 0; q < Q; ++q) {
                    const auto high_part = broadcast4(queries[q].high + word * 8 + half * 4);
                    const auto low_part = broadcast4(queries[q].low + word * 8 + half * 4);
                    for (int v = 0; v < V; ++v) {
                        part[0][q][v] = Level::dot4(part[0][q][v], keys[half][v], high_part);
                        part[1][q][v] = Level::dot4(part[1][q][v], keys[half][v], low_part);
                    }
                }
            }
        }
        for (int q = 0; q < Q; ++q) {
            for (int v = 0; v < V; ++v) {
                high[q][v] = hn::Add(high[q][v], I{Level::finish4(part[0][q][v], 0)});
                low[q][v] = hn::Add(low[q][v], I{Level::finish4(part[1][q][v], 0)});
            }
        }
    }
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) {
            const F sum = hn::MulAdd(hn::ConvertTo(kF, high[q][v]), set(255), hn::ConvertTo(kF, low[q][v]));
            scores[q][v] = hn::Mul(sum, set(queries[q].step));
        }
    }
}

template <typename T, int Q, int V>
HWY_INLINE void score_floats(const KeyQuery* queries, const uint8_t* const (&places)[V], int64_t n_columns,
                             F (&scores)[Q][V]) {
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) scores[q][v] = hn::Zero(kF);
    }
    for (int64_t column = 0; column < n_columns; ++column) {
        F keys[V];
        for (int v = 0; v < V; ++v) keys[v] = load(reinterpret_cast<const T*>(places[v]) + column * kKeyTile);
        for (int q = 0; q < Q; ++q) {
            const F query = set(queries[q].values[column]);
            for (int v = 0; v < V; ++v) scores[q][v] = hn::MulAdd(query, keys[v], scores[q][v]);
        }
    }
}

template <KeyFormat kFormat, int Q, int V>
HWY_INLINE void scan_vectors(const KeyScan& scan, const KeyQuery* queries, int64_t vector, float* out, F (&best)[Q]) {
    constexpr int64_t kLaneBytes = kFormat == KeyFormat::F16 ? 2 : 4;
    const int64_t tile_bytes = key_tile_bytes(kFormat, scan.n_columns);
    const uint8_t* places[V];
    for (int v = 0; v < V; ++v) {
        places[v] =
            scan.tiles + (vector + v) / kTileVectors * tile_bytes + (vector + v) % kTileVectors * kLanes * kLaneBytes;
    }
    const int64_t n_words = padded_columns(kFormat, scan.n_columns) / key_word_columns(kFormat);
    // For L2, which has room for more requests that are under way than L1 (twice the speed on Zen 4).
    if (scan.next != nullptr && vector % kTileVectors == 0) {
        const auto* begin = reinterpret_cast<const char*>(scan.next + vector / kTileVectors * tile_bytes);
        const int64_t n_tiles = V > kTileVectors ? V / kTileVectors : 1;
        for (int64_t at = 0; at < n_tiles * tile_bytes; at += 64) _mm_prefetch(begin + at, _MM_HINT_T1);
        if constexpr (kFormat == KeyFormat::I8) {
            const float* scales = scan.next_scales + vector / kTileVectors * kKeyTile;
            for (int64_t tile = 0; tile < n_tiles; ++tile) {
                _mm_prefetch(reinterpret_cast<const char*>(scales + tile * kKeyTile), _MM_HINT_T1);
            }
        }
    }
    F scores[Q][V];
    if constexpr (kFormat == KeyFormat::I8) {
        score_codes8<Q, V>(queries, places, n_words, scores);
    } else if constexpr (kFormat == KeyFormat::I4) {
        score_codes4<Q, V>(queries, places, n_words, scores);
    } else if constexpr (kFormat == KeyFormat::F16) {
        score_floats<hwy::float16_t, Q, V>(queries, places, scan.n_columns, scores);
    } else {
        score_floats<float, Q, V>(queries, places, scan.n_columns, scores);
    }
    for (int v = 0; v < V; ++v) {
        const int64_t row = (vector + v) * kLanes;
        const int64_t left = scan.n_rows - row;
        for (int q = 0; q < Q; ++q) {
            F score = scores[q][v];
            if constexpr (kFormat == KeyFormat::I8) score = hn::Mul(score, load(scan.scales + row));
            if (left < kLanes) {
                const auto there = hn::FirstN(kF, static_cast<size_t>(left > 0 ? left : 0));
                score = hn::IfThenElse(there, score, set(kNegativeInfinity));
            }
            best[q] = hn::Max(best[q], score);
            store(score, out + q * scan.out_stride + row);
        }
    }
}

template <KeyFormat kFormat, int Q>
void scan_queries(const KeyScan& scan, int64_t first) {
    const KeyQuery* queries = scan.queries + first;
    float* out = scan.out + first * scan.out_stride;
    const int64_t n_vectors = (scan.n_rows + kKeyTile - 1) / kKeyTile * kTileVectors;
    F best[Q];
    for (int q = 0; q < Q; ++q) best[q] = set(kNegativeInfinity);
    int64_t vector = 0;
    for (; vector + 2 <= n_vectors; vector += 2) scan_vectors<kFormat, Q, 2>(scan, queries, vector, out, best);
    for (; vector < n_vectors; ++vector) scan_vectors<kFormat, Q, 1>(scan, queries, vector, out, best);
    for (int q = 0; q < Q; ++q) {
        const float most = hn::GetLane(hn::MaxOfLanes(kF, best[q]));
        if (most > scan.maxima[first + q]) scan.maxima[first + q] = most;
    }
}

template <KeyFormat kFormat>
void scan_keys(const KeyScan& scan) {
    int64_t first = 0;
    for (; first + 4 <= scan.n_queries; first += 4) scan_queries<kFormat, 4>(scan, first);
    switch (scan.n_queries - first) {
        case 3: return scan_queries<kFormat, 3>(scan, first);
        case 2: return scan_queries<kFormat, 2>(scan, first);
        case 1: return scan_queries<kFormat, 1>(scan, first);
        default: return;
    }
}

float sum_of_exponentials(const float* x, int64_t n, float maximum) {
    // Too little to change an f32 sum that holds a 1: most vectors of a peaked head are passed over.
    const F least = set(maximum - 17.0f);
    F total = hn::Zero(kF);
    const auto add = [&](F value) {
        const auto counts = hn::Gt(value, least);
        if (hn::AllFalse(kF, counts)) return;
        const F power = exp2_f32(hn::Mul(hn::Sub(value, set(maximum)), set(kLog2E)));
        total = hn::Add(total, hn::IfThenElseZero(counts, power));
    };
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) add(load(x + i));
    if (i < n) {
        alignas(64) float rest[kLanes];
        for (int64_t lane = 0; lane < kLanes; ++lane) rest[lane] = i + lane < n ? x[i + lane] : kNegativeInfinity;
        add(load(rest));
    }
    return hn::GetLane(hn::SumOfLanes(kF, total));
}

void combine_scores(const float* raw, int64_t stride, const float* references, int64_t n_queries, bool best, float* out,
                    int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
        F total = hn::Sub(load(raw + i), set(references[0]));
        for (int64_t q = 1; q < n_queries; ++q) {
            const F distance = hn::Sub(load(raw + q * stride + i), set(references[q]));
            total = best ? hn::Max(total, distance) : hn::Add(total, distance);
        }
        if (!best) total = hn::Div(total, set(static_cast<float>(n_queries)));
        store_columns(total, out + i, n - i, false);
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
