// Attention of many queries over a block of cached rows, in any arithmetic whose products are summed in f32 (`A`).
//
// Queries stand side by side in the lanes, so that maxima, sums and corrections need no sum across lanes, and both
// products take the cached rows as broadcast words: scores[key][query] = keys[key][word] queries[word][query] and
// out[dimension][query] += values[word][dimension] weights[word][query]. A word is four bytes of the inner dimension:
// one f32, or two bf16. Queries, weights and results lie in strips of at most kStripVectors vectors.
//
// The softmax subtracts a reference, which is the maximum of the first few rows that a query has seen and not of all.
// Floating-point numbers lose nothing by that as long as no weight overflows; a block whose weights sum to more than
// kMostSum raises the reference and begins anew. So weights leave the registers as such, and no score is ever stored.
#pragma once

#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

// A tile of kRowsAtOnce x kStripVectors sums leaves registers for kStripVectors + 1 operands.
constexpr int kRowsAtOnce = kLanes == 16 ? 8 : 4;
constexpr int kStripVectors = 3;
constexpr float kMostSum = 0x1p64f;

// One strip of V vectors of queries and one block of rows.
struct StripTask {
    const float* queries;  // [words][V * kLanes]
    float* out;            // [head_size][V * kLanes]
    float* references;     // [V * kLanes], of scores to base 2; -inf where nothing was seen
    float* sums;
    float* weights;          // scratch
    const int32_t* visible;  // [V * kLanes]
    const PackedRows* rows;
    int64_t n_keys;  // a multiple of kRowsAtOnce; rows beyond what is visible are zeros
    int64_t head_size;
    int64_t n_words;  // of a query and of a key
};

// total[r][v] += a[r] . b[v], a read as a[r * a_row + i * a_step].
template <class A, int R, int V>
HWY_INLINE void add_products(const float* a, int64_t a_row, int64_t a_step, const float* b, int64_t n,
                             F (&total)[R][V]) {
    for (int64_t i = 0; i < n; ++i) {
        F w[V];
        for (int v = 0; v < V; ++v) w[v] = load(b + (i * V + v) * kLanes);
        for (int r = 0; r < R; ++r) {
            const F x = set(a[r * a_row + i * a_step]);
            for (int v = 0; v < V; ++v) total[r][v] = A::dot(total[r][v], x, w[v]);
        }
    }
}

template <class A, int V>
HWY_INLINE void score(const StripTask& task, int64_t key, const F (&base)[V], F (&scores)[kRowsAtOnce][V]) {
    const float* bias = task.rows->bias;
    for (int r = 0; r < kRowsAtOnce; ++r) {
        for (int v = 0; v < V; ++v) {
            scores[r][v] = bias == nullptr ? base[v] : hn::Add(base[v], set(bias[key + r] * kLog2E));
        }
    }
    add_products<A, kRowsAtOnce, V>(task.rows->keys + key * task.n_words, task.n_words, 1, task.queries, task.n_words,
                                    scores);
}

template <int V>
HWY_INLINE auto shown(const StripTask& task, int64_t key, int v) {
    return hn::RebindMask(kF,
                          hn::Gt(hn::LoadU(kI32, task.visible + v * kLanes), hn::Set(kI32, static_cast<int32_t>(key))));
}

// Raises `most` to the maximum of the scores of the first n_keys rows.
template <class A, int V>
void raise(const StripTask& task, int64_t n_keys, F (&most)[V]) {
    F zero[V];
    for (int v = 0; v < V; ++v) zero[v] = hn::Zero(kF);
    for (int64_t key = 0; key < n_keys; key += kRowsAtOnce) {
        F scores[kRowsAtOnce][V];
        score<A, V>(task, key, zero, scores);
        for (int r = 0; r < kRowsAtOnce; ++r) {
            for (int v = 0; v < V; ++v) {
                most[v] =
                    hn::Max(most[v], hn::IfThenElse(shown<V>(task, key + r, v), scores[r][v], set(kNegativeInfinity)));
            }
        }
    }
}

// weights = exp2(score - reference), and their sums.
template <class A, int V, bool kMasked>
HWY_INLINE void weigh(const StripTask& task, const F (&references)[V], F (&sums)[V]) {
    F base[V];
    for (int v = 0; v < V; ++v) {
        base[v] = hn::IfThenZeroElse(hn::Eq(references[v], set(kNegativeInfinity)), hn::Neg(references[v]));
        sums[v] = hn::Zero(kF);
    }
    for (int64_t key = 0; key < task.n_keys; key += kRowsAtOnce) {
        F scores[kRowsAtOnce][V];
        score<A, V>(task, key, base, scores);
        for (int r = 0; r < kRowsAtOnce; r += A::kElements) {
            for (int v = 0; v < V; ++v) {
                F powers[A::kElements];
                for (int i = 0; i < A::kElements; ++i) {
                    powers[i] = A::exp2(scores[r + i][v]);
                    if constexpr (kMasked) {
                        powers[i] = hn::IfThenElseZero(shown<V>(task, key + r + i, v), powers[i]);
                    }
                }
                const F word = A::word(powers);
                sums[v] = A::dot(sums[v], A::ones(), word);
                store(word, task.weights + ((key + r) / A::kElements * V + v) * kLanes);
            }
        }
    }
}

template <int V>
HWY_INLINE bool all_below(const F (&sums)[V], float most) {
    bool below = true;
    for (int v = 0; v < V; ++v) below = below && hn::AllTrue(kF, hn::Lt(sums[v], set(most)));
    return below;
}

template <int V>
void raise_references(const StripTask& task, const F (&from)[V], const F (&to)[V]) {
    F factors[V];
    for (int v = 0; v < V; ++v) {
        factors[v] = exp2_f32(hn::Sub(from[v], to[v]));
        store(hn::Mul(load(task.sums + v * kLanes), factors[v]), task.sums + v * kLanes);
    }
    for (int64_t i = 0; i < task.head_size; ++i) {
        for (int v = 0; v < V; ++v) {
            float* out = task.out + (i * V + v) * kLanes;
            store(hn::Mul(load(out), factors[v]), out);
        }
    }
}

template <class A, int V>
void attend_strip(const StripTask& task, bool masked) {
    F references[V];
    bool fresh = false;
    for (int v = 0; v < V; ++v) {
        references[v] = load(task.references + v * kLanes);
        fresh = fresh || !hn::AllFalse(kF, hn::Eq(references[v], set(kNegativeInfinity)));
    }
    if (fresh) {
        F first[V];
        for (int v = 0; v < V; ++v) first[v] = set(kNegativeInfinity);
        raise<A, V>(task, kRowsAtOnce, first);
        for (int v = 0; v < V; ++v) {
            const auto unseen = hn::Eq(references[v], set(kNegativeInfinity));
            references[v] = hn::IfThenElse(unseen, first[v], references[v]);
        }
    }
    F sums[V];
    masked ? weigh<A, V, true>(task, references, sums) : weigh<A, V, false>(task, references, sums);
    if (!all_below<V>(sums, kMostSum)) {
        F raised[V];
        for (int v = 0; v < V; ++v) raised[v] = references[v];
        raise<A, V>(task, task.n_keys, raised);
        raise_references<V>(task, references, raised);
        for (int v = 0; v < V; ++v) references[v] = raised[v];
        weigh<A, V, true>(task, references, sums);
    }
    for (int v = 0; v < V; ++v) {
        store(references[v], task.references + v * kLanes);
        store(hn::Add(load(task.sums + v * kLanes), sums[v]), task.sums + v * kLanes);
    }
    for (int64_t i = 0; i < task.head_size; i += kRowsAtOnce) {
        F total[kRowsAtOnce][V];
        float* out = task.out + i * V * kLanes;
        for (int r = 0; r < kRowsAtOnce; ++r) {
            for (int v = 0; v < V; ++v) total[r][v] = load(out + (r * V + v) * kLanes);
        }
        add_products<A, kRowsAtOnce, V>(task.rows->values + i, 1, task.head_size, task.weights,
                                        task.n_keys / A::kElements, total);
        for (int r = 0; r < kRowsAtOnce; ++r) {
            for (int v = 0; v < V; ++v) store(total[r][v], out + (r * V + v) * kLanes);
        }
    }
}

// body(first query, vectors) for each strip.
template <typename Body>
HWY_INLINE void for_each_strip(int64_t n_queries, const Body& body) {
    for (int64_t first = 0; first < n_queries; first += kStripVectors * kLanes) {
        const int64_t vectors = (n_queries - first + kLanes - 1) / kLanes;
        body(first, vectors < kStripVectors ? vectors : kStripVectors);
    }
}

template <class A>
void attend_rows(const QueryTile& tile, const PackedRows& rows) {
    for_each_strip(tile.n_queries, [&](int64_t first, int64_t vectors) {
        int32_t least = tile.visible[first];
        int32_t most = least;
        for (int64_t i = first; i < first + vectors * kLanes; ++i) {
            least = tile.visible[i] < least ? tile.visible[i] : least;
            most = tile.visible[i] > most ? tile.visible[i] : most;
        }
        if (most == 0) return;
        const int64_t n_words = tile.head_size / A::kElements;
        const int64_t n_keys = (most + kRowsAtOnce - 1) / kRowsAtOnce * kRowsAtOnce;
        const StripTask task{tile.queries + first * n_words,
                             tile.out + first * tile.head_size,
                             tile.references + first,
                             tile.sums + first,
                             tile.weights,
                             tile.visible + first,
                             &rows,
                             n_keys,
                             tile.head_size,
                             n_words};
        const bool masked = least < n_keys;
        vectors == 3   ? attend_strip<A, 3>(task, masked)
        : vectors == 2 ? attend_strip<A, 2>(task, masked)
                       : attend_strip<A, 1>(task, masked);
    });
}

// Four words of each of four rows, turned.
HWY_INLINE void turn(const float* const (&in)[4], float* out, int64_t out_stride) {
    const hn::FixedTag<float, 4> d;
    const auto a = hn::LoadU(d, in[0]);
    const auto b = hn::LoadU(d, in[1]);
    const auto c = hn::LoadU(d, in[2]);
    const auto e = hn::LoadU(d, in[3]);
    const auto ac_lower = hn::InterleaveLower(d, a, c);
    const auto be_lower = hn::InterleaveLower(d, b, e);
    const auto ac_upper = hn::InterleaveUpper(d, a, c);
    const auto be_upper = hn::InterleaveUpper(d, b, e);
    hn::StoreU(hn::InterleaveLower(d, ac_lower, be_lower), d, out);
    hn::StoreU(hn::InterleaveUpper(d, ac_lower, be_lower), d, out + out_stride);
    hn::StoreU(hn::InterleaveLower(d, ac_upper, be_upper), d, out + 2 * out_stride);
    hn::StoreU(hn::InterleaveUpper(d, ac_upper, be_upper), d, out + 3 * out_stride);
}

template <class A>
void pack_queries(const QuerySource& source, const QueryTile& tile) {
    const int64_t n_words = tile.head_size / A::kElements;
    for_each_strip(tile.n_queries, [&](int64_t first, int64_t vectors) {
        const int64_t width = vectors * kLanes;
        float* out = tile.queries + first * n_words;
        for (int64_t i = 0; i < width; i += 4) {
            const float* four[4];
            for (int64_t j = 0; j < 4; ++j) {
                const int64_t query = first + i + j;
                float* words = tile.weights + j * n_words;  // not in use yet
                four[j] = words;
                if (query < source.n_queries) {
                    const float* q =
                        source.q + query / source.group * source.q_stride + query % source.group * tile.head_size;
                    A::scale_query(q, source.scale * kLog2E, tile.head_size, words);
                } else {
                    for (int64_t k = 0; k < n_words; ++k) words[k] = 0;
                }
            }
            for (int64_t k = 0; k < n_words; k += 4) {
                const float* at[4] = {four[0] + k, four[1] + k, four[2] + k, four[3] + k};
                turn(at, out + k * width + i, width);
            }
        }
    });
}

// From strips to out[n_queries][head_size], and references to the base of e.
void unpack_result(const QueryTile& tile, int64_t n_queries, float* out) {
    const int64_t d = tile.head_size;
    for_each_strip(tile.n_queries, [&](int64_t first, int64_t vectors) {
        const int64_t width = vectors * kLanes;
        const float* in = tile.out + first * d;
        for (int64_t i = 0; i < width; i += 4) {
            if (first + i + 4 <= n_queries) {
                for (int64_t k = 0; k < d; k += 4) {
                    const float* line = in + k * width + i;
                    const float* at[4] = {line, line + width, line + 2 * width, line + 3 * width};
                    turn(at, out + (first + i) * d + k, d);
                }
            } else {
                for (int64_t query = first + i; query < n_queries; ++query) {
                    for (int64_t k = 0; k < d; ++k) out[query * d + k] = in[k * width + query - first];
                }
            }
        }
    });
    for (int64_t i = 0; i < tile.n_queries; i += kLanes) {
        store(hn::Mul(load(tile.references + i), set(kLn2)), tile.references + i);
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
