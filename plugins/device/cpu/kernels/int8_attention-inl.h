// Few queries over I8 rows K||V as they lie in the cache, by integer dot products.
//
// Four rows are turned so that one word of 32 bits holds what one product needs: four columns of a key, or one column of
// four values. That is done once for all queries. Queries and weights are two digits of base 128, so that int8 products
// lose nothing that the rows have: x = scale * (128 * high + low).
#pragma once

#include "kernels/lanes-inl.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

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

constexpr int64_t digit_bytes(int64_t width) {
    return (width + 63) / 64 * 64 * 8;
}

// A packed query: two digits of base 128, [vector of columns][word j of a block][high, low][vector], where the four words
// of a block are all the same one, as four rows meet it; then for each digit what a sum starts with, which takes the
// offset of unsigned keys back out where products have that; then its step.
struct QuantisedQuery {
    int8_t* digits;   // [digit_bytes]
    int32_t* starts;  // [2][16]
    float* step;

    HWY_INLINE QuantisedQuery(const void* packed, int64_t q, int64_t width)
        : digits(static_cast<int8_t*>(const_cast<void*>(packed)) + q * packed_query_bytes(width)),
          starts(reinterpret_cast<int32_t*>(digits + digit_bytes(width))),
          step(reinterpret_cast<float*>(starts + 32)) {}
};

void pack_int8_queries(const float* queries, int64_t n_queries, int64_t width, void* packed) {
    for (int64_t q = 0; q < n_queries; ++q) {
        const float* x = queries + q * width;
        const QuantisedQuery out(packed, q, width);
        float most = 0;
        for (int64_t i = 0; i < width; ++i) most = x[i] > most ? x[i] : -x[i] > most ? -x[i] : most;
        const float step = most / kMostDigits;
        *out.step = step;
        int8_t* digits = out.digits;
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
                out.starts[digit * 16 + lane] = hn::GetLane(hn::Vec<D32>{start});
            }
        }
    }
}

// Adds the products of four rows, `keys` from column `begin` on, to the digits' sums.
template <int Q, typename W>
HWY_INLINE void add_int8_products(const void* packed, const Bytes (&keys)[4], int64_t begin, W width,
                                  Level::Words (&high)[Q], Level::Words (&low)[Q]) {
    Bytes turned[4];
    turn_rows<uint32_t, uint64_t>(keys, turned);
#pragma GCC unroll 4
    for (int64_t j = 0; j < 4; ++j) {
        const Level::Words key = hn::Xor(turned[j], hn::Set(kU8, 128)).raw;
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
            const auto* digits = reinterpret_cast<const uint8_t*>(QuantisedQuery(packed, q, width).digits) + begin * 8 +
                                 j * 2 * kVectorBytes;
            high[q] = Level::dot8(high[q], key, Level::load(digits));
            low[q] = Level::dot8(low[q], key, Level::load(digits + kVectorBytes));
        }
    }
}

template <int Q, typename W>
HWY_INLINE void score_int8_tile(const void* packed, const Rows& rows, const float* scales, W width, float* out,
                                int64_t out_stride) {
    const auto word_at = [](const int32_t* p) { return Level::load(reinterpret_cast<const uint8_t*>(p)); };
    const int64_t whole = width / kVectorBytes * kVectorBytes;
    for (int64_t row = 0; row < rows.n; row += kLanes) {
        F quarters[Q][kLanes / 4];
        for (int64_t part = 0; part < kLanes / 4; ++part) {
            const uint8_t* at[4];
#pragma GCC unroll 4
            for (int64_t r = 0; r < 4; ++r) {
                const int64_t index = row + part * 4 + r;
                at[r] = rows.at[index < rows.n ? index : rows.n - 1] + rows.offset;
                prefetch_next(rows, index);
            }
            Level::Words high[Q];
            Level::Words low[Q];
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) {
                const int32_t* starts = QuantisedQuery(packed, q, width).starts;
                high[q] = word_at(starts);
                low[q] = word_at(starts + 16);
            }
            for (int64_t begin = 0; begin < whole; begin += kVectorBytes) {
                const Bytes keys[4] = {hn::LoadU(kU8, at[0] + begin), hn::LoadU(kU8, at[1] + begin),
                                       hn::LoadU(kU8, at[2] + begin), hn::LoadU(kU8, at[3] + begin)};
                add_int8_products<Q, W>(packed, keys, begin, width, high, low);
            }
            if (whole < width) {
                Bytes keys[4];
                for (int64_t r = 0; r < 4; ++r) keys[r] = load_row(rows, row + part * 4 + r, whole, width);
                add_int8_products<Q, W>(packed, keys, whole, width, high, low);
            }
#pragma GCC unroll 4
            for (int q = 0; q < Q; ++q) quarters[q][part] = of_digits(high[q], low[q]);
        }
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
            const F scale = hn::Mul(load(scales + row), set(*QuantisedQuery(packed, q, width).step));
            store_columns(hn::Mul(sum_parts(quarters[q]), scale), out + q * out_stride + row, rows.n - row, false);
        }
    }
}

template <typename W>
void score_int8_of_width(const void* packed, int64_t n_queries, const Rows& rows, W width, float* out,
                         int64_t out_stride) {
    alignas(64) float scales[kBlockRows];
    gather_scales(rows, scales);
    for (int64_t q = 0; q < n_queries;) {
        const auto* left = static_cast<const uint8_t*>(packed) + q * packed_query_bytes(width);
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

void score_int8_rows(const void* packed, int64_t n_queries, const Rows& rows, int64_t width, float* out,
                     int64_t out_stride) {
    with_width(width, [&](auto known) { score_int8_of_width(packed, n_queries, rows, known, out, out_stride); });
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

// Words 0 and 1 (or 2 and 3) of each block of turn_rows: half of the sums at a time stay in registers.
template <int Q, bool kUpper, typename W>
HWY_INLINE void sum_half(const WeightDigits* weights, const Rows& rows, int64_t begin, W width, F (&sums)[Q][4]) {
    const hn::Repartition<uint16_t, D> pairs;
    Level::Words high[Q][2];
    Level::Words low[Q][2];
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) high[q][0] = high[q][1] = low[q][0] = low[q][1] = Level::zero();
    const auto sum_four = [&](Bytes a, Bytes b, Bytes c, Bytes d, int64_t row) HWY_ATTR {
        const auto ab = hn::BitCast(pairs, kUpper ? hn::InterleaveUpper(kU8, a, b) : hn::InterleaveLower(kU8, a, b));
        const auto cd = hn::BitCast(pairs, kUpper ? hn::InterleaveUpper(kU8, c, d) : hn::InterleaveLower(kU8, c, d));
        const Level::Words first = hn::BitCast(kU8, hn::InterleaveLower(pairs, ab, cd)).raw;
        const Level::Words second = hn::BitCast(kU8, hn::InterleaveUpper(pairs, ab, cd)).raw;
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
            const Level::Words more = four_weights(weights[q].high + row);
            const Level::Words less = four_weights(weights[q].low + row);
            high[q][0] = Level::dot7(high[q][0], more, first);
            high[q][1] = Level::dot7(high[q][1], more, second);
            low[q][0] = Level::dot7(low[q][0], less, first);
            low[q][1] = Level::dot7(low[q][1], less, second);
        }
    };
    int64_t row = 0;
    if (width - begin >= kVectorBytes) {
        const int64_t offset = rows.offset + begin;
        for (; row + 4 <= rows.n; row += 4) {
            if (!kUpper && begin == 0) {
                for (int64_t r = row; r < row + 4; ++r) prefetch_next(rows, r);
            }
            const uint8_t* const* at = rows.at + row;
            sum_four(hn::LoadU(kU8, at[0] + offset), hn::LoadU(kU8, at[1] + offset), hn::LoadU(kU8, at[2] + offset),
                     hn::LoadU(kU8, at[3] + offset), row);
        }
    }
    for (; row < rows.n; row += 4) {
        sum_four(load_row(rows, row, begin, width), load_row(rows, row + 1, begin, width),
                 load_row(rows, row + 2, begin, width), load_row(rows, row + 3, begin, width), row);
    }
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
        sums[q][kUpper ? 2 : 0] = hn::Mul(of_digits(high[q][0], low[q][0]), set(weights[q].step));
        sums[q][kUpper ? 3 : 1] = hn::Mul(of_digits(high[q][1], low[q][1]), set(weights[q].step));
    }
}

template <int Q, typename W>
HWY_INLINE void accumulate_int8_tile(const WeightDigits* weights, const Rows& rows, W width, float* out,
                                     int64_t out_stride) {
    for (int64_t begin = 0; begin < width; begin += kVectorBytes) {
        F sums[Q][4];
        sum_half<Q, false>(weights, rows, begin, width, sums);
        sum_half<Q, true>(weights, rows, begin, width, sums);
        for (int q = 0; q < Q; ++q) {
            order_columns(sums[q]);
            for (int64_t j = 0; j < 4 && begin + j * kLanes < width; ++j) {
                float* at = out + q * out_stride + begin + j * kLanes;
                store(hn::Add(load(at), sums[q][j]), at);
            }
        }
    }
}

template <typename W>
void accumulate_int8_of_width(const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows, W width,
                              float* out, int64_t out_stride) {
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

void accumulate_int8_rows(const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows,
                          int64_t width, float* out, int64_t out_stride) {
    with_width(width, [&](auto known) {
        accumulate_int8_of_width(weights, weight_stride, n_queries, rows, known, out, out_stride);
    });
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
