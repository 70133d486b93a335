// Few queries over I8 rows K||V as they lie in the cache, by integer dot products.
//
// Four rows are turned so that one word of 32 bits holds what one product needs: four columns of a key, or one column of
// four values. That is done once for all queries. Queries and weights are two digits of base 128, so that int8 products
// lose nothing that the rows have: x = scale * (128 * high + low).
#pragma once

#include "kernels/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

using DBytes = hn::Repartition<uint8_t, D>;
using Bytes = hn::Vec<DBytes>;
constexpr DBytes kU8;
constexpr int64_t kVectorBytes = 4 * kLanes;
constexpr int64_t kVectorBlocks = kLanes / 4;  // of 128 bits
constexpr int32_t kDigit = 128;
constexpr float kMostDigits = 127.0f * kDigit;  // so that the high digit is at most 127

HWY_INLINE Bytes load_row(const Rows& rows, int64_t row, int64_t begin, int64_t width) {
    const uint8_t* at = rows.at[row < rows.n ? row : rows.n - 1] + rows.offset + begin;
    const int64_t left = width - begin;
    if (left >= kVectorBytes) return hn::LoadU(kU8, at);
    alignas(64) uint8_t tail[kVectorBytes] = {};
    memcpy(tail, at, static_cast<size_t>(left));
    return hn::Load(kU8, tail);
}

// In each block of 128 bits: turned[j] = unit j of rows 0, 1, 2, 3 and so on, units as wide as `Small`.
template <typename Small, typename Large>
HWY_INLINE void turn_rows(const Bytes (&rows)[4], Bytes (&turned)[4]) {
    const hn::Repartition<Small, D> small;
    const hn::Repartition<Large, D> large;
    const auto at = [&](int r) { return hn::BitCast(small, rows[r]); };
    const auto low01 = hn::BitCast(large, hn::InterleaveLower(small, at(0), at(1)));
    const auto low23 = hn::BitCast(large, hn::InterleaveLower(small, at(2), at(3)));
    const auto high01 = hn::BitCast(large, hn::InterleaveUpper(small, at(0), at(1)));
    const auto high23 = hn::BitCast(large, hn::InterleaveUpper(small, at(2), at(3)));
    turned[0] = hn::BitCast(kU8, hn::InterleaveLower(large, low01, low23));
    turned[1] = hn::BitCast(kU8, hn::InterleaveUpper(large, low01, low23));
    turned[2] = hn::BitCast(kU8, hn::InterleaveLower(large, high01, high23));
    turned[3] = hn::BitCast(kU8, hn::InterleaveUpper(large, high01, high23));
}

HWY_INLINE F of_digits(Level::Words high, Level::Words low) {
    const F large = hn::ConvertTo(kF, hn::Vec<D32>{high});
    return hn::MulAdd(large, set(kDigit), hn::ConvertTo(kF, hn::Vec<D32>{low}));
}

// The scales of the rows in f32, zeros up to the next multiple of the lanes.
HWY_INLINE void gather_scales(const Rows& rows, float* scales) {
    alignas(64) uint16_t bits[kBlockRows];
    int64_t row = 0;
    for (; row < rows.n; ++row) bits[row] = row_scale_bits(rows, row);
    for (; row % kLanes != 0; ++row) bits[row] = 0;
    for (int64_t i = 0; i < row; i += kLanes)
        store(load(reinterpret_cast<const hwy::float16_t*>(bits + i)), scales + i);
}

// Digits: [vector of columns][word j of a block][high, low][vector]; the four words of a block are all the same one, as
// four rows meet it. Where products take unsigned keys, the start of a sum takes their offset of 128 back out.
void quantise_queries(const float* queries, int64_t query_stride, int64_t n_queries, int64_t width,
                      const QuantisedQueries& out) {
    for (int64_t q = 0; q < n_queries; ++q) {
        const float* x = queries + q * query_stride;
        float most = 0;
        for (int64_t i = 0; i < width; ++i) most = x[i] > most ? x[i] : -x[i] > most ? -x[i] : most;
        const float step = most / kMostDigits;
        out.scales[q] = step;
        int8_t* digits = out.digits + q * quantised_query_bytes(width);
        int32_t sums[2][kVectorBlocks] = {};
        for (int64_t begin = 0; begin < width; begin += kVectorBytes, digits += 8 * kVectorBytes) {
            for (int64_t i = 0; i < kVectorBytes; ++i) {
                const float scaled = begin + i < width && step > 0 ? x[begin + i] / step : 0.0f;
                const auto value = static_cast<int32_t>(__builtin_rintf(scaled));
                const int32_t high = (value + kDigit / 2) >> 7;
                const int32_t low = value - high * kDigit;
                const int64_t block = i / 16;
                sums[0][block] += high;
                sums[1][block] += low;
                int8_t* word = digits + i % 16 / 4 * 2 * kVectorBytes + block * 16 + i % 4;
                for (int64_t row = 0; row < 4; ++row) {
                    word[row * 4] = static_cast<int8_t>(high);
                    word[row * 4 + kVectorBytes] = static_cast<int8_t>(low);
                }
            }
        }
        for (int64_t digit = 0; digit < 2; ++digit) {
            for (int64_t lane = 0; lane < kLanes; ++lane) {
                const Level::Words start = Level::start8(-128 * sums[digit][lane / 4]);
                out.starts[(q * 2 + digit) * 16 + lane] = hn::GetLane(hn::Vec<D32>{start});
            }
        }
    }
}

template <int Q>
HWY_INLINE void score_int8_tile(const QuantisedQueries& queries, const Rows& rows, const float* scales, int64_t width,
                                float* out, int64_t out_stride) {
    const auto word_at = [](const int32_t* p) { return Level::load(reinterpret_cast<const uint8_t*>(p)); };
    const auto digits_at = [](const int8_t* p) { return Level::load(reinterpret_cast<const uint8_t*>(p)); };
    for (int64_t row = 0; row < rows.n; row += kLanes) {
        F quarters[Q][kLanes / 4];
        for (int64_t part = 0; part < kLanes / 4; ++part) {
            const int64_t first = row + part * 4;
            Level::Words high[Q];
            Level::Words low[Q];
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) {
                high[q] = word_at(queries.starts + q * 32);
                low[q] = word_at(queries.starts + q * 32 + 16);
            }
#pragma GCC unroll 4
            for (int64_t r = first; r < first + 4; ++r) prefetch_next(rows, r);
            for (int64_t begin = 0; begin < width; begin += kVectorBytes) {
                Bytes keys[4];
#pragma GCC unroll 4
                for (int64_t r = 0; r < 4; ++r) {
                    keys[r] = hn::Xor(load_row(rows, first + r, begin, width), hn::Set(kU8, 128));
                }
                Bytes turned[4];
                turn_rows<uint32_t, uint64_t>(keys, turned);
#pragma GCC unroll 4
                for (int64_t j = 0; j < 4; ++j) {
#pragma GCC unroll 4
                    for (int q = 0; q < Q; ++q) {
                        const int8_t* digits =
                            queries.digits + q * quantised_query_bytes(width) + begin * 8 + j * 2 * kVectorBytes;
                        high[q] = Level::dot8(high[q], turned[j].raw, digits_at(digits));
                        low[q] = Level::dot8(low[q], turned[j].raw, digits_at(digits + kVectorBytes));
                    }
                }
            }
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) quarters[q][part] = of_digits(high[q], low[q]);
        }
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
            const F scale = hn::Mul(load(scales + row), set(queries.scales[q]));
            store_columns(hn::Mul(sum_parts(quarters[q]), scale), out + q * out_stride + row, rows.n - row, false);
        }
    }
}

void score_int8_rows(const QuantisedQueries& queries, int64_t n_queries, const Rows& rows, int64_t width, float* out,
                     int64_t out_stride) {
    alignas(64) float scales[kBlockRows];
    gather_scales(rows, scales);
    for (int64_t q = 0; q < n_queries;) {
        const QuantisedQueries left{queries.digits + q * quantised_query_bytes(width), queries.starts + q * 32,
                                    queries.scales + q};
        float* line = out + q * out_stride;
        if (n_queries - q >= 3 && Level::kInt8Queries >= 3) {
            score_int8_tile<3>(left, rows, scales, width, line, out_stride);
            q += 3;
        } else if (n_queries - q >= 2) {
            score_int8_tile<2>(left, rows, scales, width, line, out_stride);
            q += 2;
        } else {
            score_int8_tile<1>(left, rows, scales, width, line, out_stride);
            q += 1;
        }
    }
}

// Blocks of 128 bits that stand [j][block], four vectors, in the order of columns [block][j].
HWY_INLINE void order_columns(F (&v)[4]) {
    if constexpr (kVectorBlocks == 2) {
        const F even[2] = {hn::ConcatLowerLower(kF, v[1], v[0]), hn::ConcatLowerLower(kF, v[3], v[2])};
        const F odd[2] = {hn::ConcatUpperUpper(kF, v[1], v[0]), hn::ConcatUpperUpper(kF, v[3], v[2])};
        v[0] = even[0];
        v[1] = even[1];
        v[2] = odd[0];
        v[3] = odd[1];
    } else if constexpr (kVectorBlocks == 4) {
        const F lower[2] = {hn::ConcatLowerLower(kF, v[2], v[0]), hn::ConcatLowerLower(kF, v[3], v[1])};
        const F upper[2] = {hn::ConcatUpperUpper(kF, v[2], v[0]), hn::ConcatUpperUpper(kF, v[3], v[1])};
        v[0] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(lower[1]), lower[0]);
        v[1] = hn::OddEvenBlocks(lower[1], hn::SwapAdjacentBlocks(lower[0]));
        v[2] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(upper[1]), upper[0]);
        v[3] = hn::OddEvenBlocks(upper[1], hn::SwapAdjacentBlocks(upper[0]));
    }
}

// Weights of one call: the steps are relative to the largest, so that a block of small ones keeps its digits.
struct WeightDigits {
    alignas(64) int8_t high[kBlockRows];
    alignas(64) int8_t low[kBlockRows];
    float step;
};

// weights[row] * scales[row] in two digits; zero from n on.
HWY_INLINE void digits_of_weights(const float* weights, const float* scales, int64_t n, WeightDigits& out) {
    const hn::Rebind<int8_t, D> narrow;
    const int64_t padded = (n + kLanes - 1) / kLanes * kLanes;
    F product[kBlockRows / kLanes];
    F most = hn::Zero(kF);
    F total = hn::Zero(kF);
    for (int64_t i = 0; i < padded; i += kLanes) {
        product[i / kLanes] = hn::Mul(load(weights + i), load(scales + i));
        most = hn::Max(most, product[i / kLanes]);
        total = hn::Add(total, product[i / kLanes]);
    }
    const float largest = hn::GetLane(hn::MaxOfLanes(kF, most));
    const bool some = largest > 1e-30f;  // less than that adds nothing, and would make the factor infinite
    const float finite = hn::GetLane(hn::SumOfLanes(kF, total)) * 0.0f;  // NaN if a scale was: int8 cannot say so
    out.step = (some ? largest / kMostDigits : 0.0f) + finite;
    const F factor = set(some ? kMostDigits / largest : 0.0f);
    for (int64_t i = 0; i < padded; i += kLanes) {
        const auto value = hn::NearestInt(hn::Mul(product[i / kLanes], factor));
        hn::StoreU(hn::DemoteTo(narrow, hn::ShiftRight<7>(value)), narrow, out.high + i);
        hn::StoreU(hn::DemoteTo(narrow, hn::And(value, hn::Set(kI32, kDigit - 1))), narrow, out.low + i);
    }
}

HWY_INLINE Level::Words four_weights(const int8_t* p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return Level::set(word);
}

template <int Q>
HWY_INLINE void accumulate_int8_tile(const WeightDigits* weights, const Rows& rows, int64_t width, float* out,
                                     int64_t out_stride) {
    for (int64_t begin = 0; begin < width; begin += kVectorBytes) {
        Level::Words high[Q][4];
        Level::Words low[Q][4];
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) high[q][j] = low[q][j] = Level::zero();
        }
        for (int64_t row = 0; row < rows.n; row += 4) {
            Bytes values[4];
#pragma GCC unroll 4
            for (int64_t r = 0; r < 4; ++r) {
                if (begin == 0) prefetch_next(rows, row + r);
                values[r] = load_row(rows, row + r, begin, width);
            }
            Bytes turned[4];
            turn_rows<uint8_t, uint16_t>(values, turned);
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) {
                const Level::Words four = four_weights(weights[q].high + row);
                const Level::Words more = four_weights(weights[q].low + row);
#pragma GCC unroll 4
                for (int j = 0; j < 4; ++j) {
                    high[q][j] = Level::dot7(high[q][j], four, turned[j].raw);
                    low[q][j] = Level::dot7(low[q][j], more, turned[j].raw);
                }
            }
        }
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
            F sums[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) sums[j] = hn::Mul(of_digits(high[q][j], low[q][j]), set(weights[q].step));
            order_columns(sums);
            for (int64_t j = 0; j < 4 && begin + j * kLanes < width; ++j) {
                float* at = out + q * out_stride + begin + j * kLanes;
                store(hn::Add(load(at), sums[j]), at);
            }
        }
    }
}

void accumulate_int8_rows(const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows,
                          int64_t width, float* out, int64_t out_stride) {
    alignas(64) float scales[kBlockRows];
    gather_scales(rows, scales);
    for (int64_t q = 0; q < n_queries;) {
        const int64_t tile = n_queries - q < Level::kInt8Queries ? n_queries - q : Level::kInt8Queries;
        WeightDigits digits[3];
        for (int64_t i = 0; i < tile; ++i)
            digits_of_weights(weights + (q + i) * weight_stride, scales, rows.n, digits[i]);
        float* line = out + q * out_stride;
        switch (tile) {
            case 3: accumulate_int8_tile<3>(digits, rows, width, line, out_stride); break;
            case 2: accumulate_int8_tile<2>(digits, rows, width, line, out_stride); break;
            default: accumulate_int8_tile<1>(digits, rows, width, line, out_stride); break;
        }
        q += tile;
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
