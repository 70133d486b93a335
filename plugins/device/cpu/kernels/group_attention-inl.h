// Few queries over rows in groups of 64 columns (groups-inl.h), one group at a time: codes are unpacked to int8 once for all
// queries, and multiplied as rows of int8 are. A value is step * code + offset, so a score is the product with the codes,
// and the sum of the query times the offset; a result is the products, and the sum of the weighted offsets.
#pragma once

#include "kernels/groups-inl.h"
#include "kernels/int8_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

struct UnpackedGroup {
    alignas(64) uint8_t codes[kBlockRows * kGroupColumns];  // int8
    const uint8_t* at[kBlockRows];
    alignas(64) float steps[kBlockRows];  // zeros up to the next multiple of the lanes
    alignas(64) float offsets[kBlockRows];

    Rows rows(int64_t n) const { return {at, n, 0, nullptr}; }
};

template <RowType kType>
HWY_INLINE void unpack_codes(const uint8_t* codes, int64_t width, uint8_t* out) {
    int64_t i = 0;
    if constexpr (kType == RowType::I4Groups) {
        const hn::Repartition<uint16_t, D> pairs;
        const hn::Rebind<uint8_t, decltype(pairs)> packed;
        for (; i + kVectorBytes <= width; i += kVectorBytes) {
            const auto both = hn::PromoteTo(pairs, hn::LoadU(packed, codes + i / 2));
            const auto odd = hn::ShiftLeft<8>(hn::And(both, hn::Set(pairs, 15)));
            hn::StoreU(hn::BitCast(kU8, hn::Or(hn::ShiftRight<4>(both), odd)), kU8, out + i);
        }
    } else {  // 0 .. 255 to -128 .. 127
        for (; i + kVectorBytes <= width; i += kVectorBytes) {
            hn::StoreU(hn::Xor(hn::LoadU(kU8, codes + i), hn::Set(kU8, 128)), kU8, out + i);
        }
    }
    constexpr hn::FixedTag<uint8_t, 16> sixteen;
    for (; i < width; i += 16) {
        const auto code = sixteen_codes<kType>(codes, i);
        hn::StoreU(kType == RowType::I4Groups ? code : hn::Xor(code, hn::Set(sixteen, 128)), sixteen, out + i);
    }
}

template <RowType kType>
void unpack_group(const Rows& rows, int64_t width, UnpackedGroup& out) {
    alignas(64) uint16_t scales[kBlockRows];
    alignas(64) uint16_t minima[kBlockRows];
    int64_t row = 0;
    for (; row < rows.n; ++row) {
        memcpy(&scales[row], rows.at[row] + rows.scale, sizeof scales[row]);
        memcpy(&minima[row], rows.at[row] + rows.scale + 2, sizeof minima[row]);
        out.at[row] = out.codes + row * kGroupColumns;
        unpack_codes<kType>(rows.at[row] + rows.offset, width, out.codes + row * kGroupColumns);
        prefetch_next(rows, row);
    }
    for (; row % kLanes != 0; ++row) scales[row] = minima[row] = 0;
    constexpr float kCentre = kType == RowType::I8Groups ? 128.0f : 0.0f;  // what unpacking took off a code
    for (int64_t i = 0; i < row; i += kLanes) {
        const F scale = load(reinterpret_cast<const hwy::float16_t*>(scales + i));
        const F step = hn::IfThenZeroElse(hn::Eq(scale, hn::Zero(kF)), hn::Div(set(1.0f), scale));
        store(step, out.steps + i);
        store(hn::MulAdd(step, set(kCentre), load(reinterpret_cast<const hwy::float16_t*>(minima + i))),
              out.offsets + i);
    }
}

HWY_INLINE void unpack_group(RowType type, const Rows& rows, int64_t width, UnpackedGroup& out) {
    type == RowType::I4Groups ? unpack_group<RowType::I4Groups>(rows, width, out)
                              : unpack_group<RowType::I8Groups>(rows, width, out);
}

template <typename W>
void score_group_of_width(const QuantisedQueries& queries, const float* query_sums, int64_t n_queries,
                          const UnpackedGroup& group, int64_t n_rows, W width, bool accumulate, float* out,
                          int64_t out_stride) {
    const Rows rows = group.rows(n_rows);
    alignas(64) float products[3 * kBlockRows];
    for (int64_t q = 0; q < n_queries;) {
        const QuantisedQueries left{queries.digits + q * quantised_query_bytes(width), queries.starts + q * 32,
                                    queries.scales + q};
        const int64_t tile = n_queries - q < Level::kInt8Queries ? n_queries - q : Level::kInt8Queries;
        switch (tile) {
            case 3: score_int8_tile<3>(left, rows, group.steps, width, products, kBlockRows); break;
            case 2: score_int8_tile<2>(left, rows, group.steps, width, products, kBlockRows); break;
            default: score_int8_tile<1>(left, rows, group.steps, width, products, kBlockRows); break;
        }
        for (int64_t i = 0; i < tile; ++i) {
            const F sum = set(query_sums[q + i]);
            float* line = out + (q + i) * out_stride;
            for (int64_t row = 0; row < n_rows; row += kLanes) {
                const F whole = hn::MulAdd(sum, load(group.offsets + row), load(products + i * kBlockRows + row));
                store(accumulate ? hn::Add(whole, load(line + row)) : whole, line + row);
            }
        }
        q += tile;
    }
}

void score_group_rows(RowType type, const QuantisedQueries& queries, const float* query_sums, int64_t n_queries,
                      const Rows& rows, int64_t width, bool accumulate, float* out, int64_t out_stride) {
    UnpackedGroup group;
    unpack_group(type, rows, width, group);
    const auto run = [&](auto known) {
        score_group_of_width(queries, query_sums, n_queries, group, rows.n, known, accumulate, out, out_stride);
    };
    width == 64 ? run(Width<64>()) : run(width);
}

template <typename W>
void accumulate_group_of_width(const float* weights, int64_t weight_stride, int64_t n_queries,
                               const UnpackedGroup& group, int64_t n_rows, W width, float* out, int64_t out_stride) {
    const Rows rows = group.rows(n_rows);
    for (int64_t q = 0; q < n_queries;) {
        const int64_t tile = n_queries - q < Level::kInt8Queries ? n_queries - q : Level::kInt8Queries;
        WeightDigits digits[3];
        for (int64_t i = 0; i < tile; ++i) {
            const float* line = weights + (q + i) * weight_stride;
            digits_of_weights(line, group.steps, n_rows, digits[i]);
            F offset = hn::Zero(kF);
            for (int64_t row = 0; row < n_rows; row += kLanes) {
                offset = hn::MulAdd(load(line + row), load(group.offsets + row), offset);
            }
            const F all = set(hn::GetLane(hn::SumOfLanes(kF, offset)));
            float* target = out + (q + i) * out_stride;
            for (int64_t j = 0; j < width; j += kLanes) store(hn::Add(load(target + j), all), target + j);
        }
        float* target = out + q * out_stride;
        switch (tile) {
            case 3: accumulate_int8_tile<3>(digits, rows, width, target, out_stride); break;
            case 2: accumulate_int8_tile<2>(digits, rows, width, target, out_stride); break;
            default: accumulate_int8_tile<1>(digits, rows, width, target, out_stride); break;
        }
        q += tile;
    }
}

void accumulate_group_rows(RowType type, const float* weights, int64_t weight_stride, int64_t n_queries,
                           const Rows& rows, int64_t width, float* out, int64_t out_stride) {
    UnpackedGroup group;
    unpack_group(type, rows, width, group);
    const auto run = [&](auto known) {
        accumulate_group_of_width(weights, weight_stride, n_queries, group, rows.n, known, out, out_stride);
    };
    width == 64 ? run(Width<64>()) : run(width);
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
