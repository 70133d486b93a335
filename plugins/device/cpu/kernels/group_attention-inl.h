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

// The columns of one group of K or V rows.
template <RowType kType>
HWY_INLINE Rows group_columns(Rows rows, int64_t group) {
    rows.offset += group * (kType == RowType::I4Groups ? kGroupColumns / 2 : kGroupColumns);
    rows.scale += group * 4;
    if (group > 0) rows.next = nullptr;  // once is enough
    return rows;
}

// A packed query: for each group of columns one of int8_attention-inl.h, and after its step the sum of its values.
constexpr int64_t kPackedGroupBytes = packed_query_bytes(kGroupColumns);

void pack_group_queries(const float* queries, int64_t n_queries, int64_t width, void* packed) {
    for (int64_t q = 0; q < n_queries; ++q) {
        auto* at = static_cast<uint8_t*>(packed) + q * packed_query_bytes(width);
        for (int64_t begin = 0; begin < width; begin += kGroupColumns, at += kPackedGroupBytes) {
            const float* x = queries + q * width + begin;
            const int64_t columns = width - begin < kGroupColumns ? width - begin : kGroupColumns;
            const QuantisedQuery out(at, columns);
            pack_int8_query(x, columns, out);
            float sum = 0;
            for (int64_t i = 0; i < columns; ++i) sum += x[i];
            out.step[1] = sum;
        }
    }
}

template <typename W>
void score_group(const uint8_t* packed, int64_t stride, int64_t n_queries, const UnpackedGroup& group, int64_t n_rows,
                 W width, bool accumulate, float* out, int64_t out_stride) {
    const Rows rows = group.rows(n_rows);
    alignas(64) float products[3 * kBlockRows];
    for (int64_t q = 0; q < n_queries;) {
        const uint8_t* left = packed + q * stride;
        const int64_t tile = n_queries - q < Level::kInt8Queries ? n_queries - q : Level::kInt8Queries;
        switch (tile) {
            case 3: score_int8_tile<3>(left, stride, rows, group.steps, width, products, kBlockRows); break;
            case 2: score_int8_tile<2>(left, stride, rows, group.steps, width, products, kBlockRows); break;
            default: score_int8_tile<1>(left, stride, rows, group.steps, width, products, kBlockRows); break;
        }
        for (int64_t i = 0; i < tile; ++i) {
            const F sum = set(QuantisedQuery(left + i * stride, width).step[1]);
            float* line = out + (q + i) * out_stride;
            for (int64_t row = 0; row < n_rows; row += kLanes) {
                const F whole = hn::MulAdd(sum, load(group.offsets + row), load(products + i * kBlockRows + row));
                store(accumulate ? hn::Add(whole, load(line + row)) : whole, line + row);
            }
        }
        q += tile;
    }
}

template <RowType kType>
void score_group_rows(const void* packed, int64_t n_queries, const Rows& rows, int64_t width, float* out,
                      int64_t out_stride) {
    UnpackedGroup group;
    const int64_t stride = packed_query_bytes(width);
    for (int64_t i = 0; i * kGroupColumns < width; ++i) {
        const int64_t left = width - i * kGroupColumns;
        const int64_t columns = left < kGroupColumns ? left : kGroupColumns;
        unpack_group<kType>(group_columns<kType>(rows, i), columns, group);
        const auto* queries = static_cast<const uint8_t*>(packed) + i * kPackedGroupBytes;
        const auto run = [&](auto known) {
            score_group(queries, stride, n_queries, group, rows.n, known, i > 0, out, out_stride);
        };
        columns == kGroupColumns ? run(Width<kGroupColumns>()) : run(columns);
    }
}

template <typename W>
void accumulate_group(const float* weights, int64_t weight_stride, int64_t n_queries, const UnpackedGroup& group,
                      int64_t n_rows, W width, float* out, int64_t out_stride) {
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

template <RowType kType>
void accumulate_group_rows(const float* weights, int64_t weight_stride, int64_t n_queries, const Rows& rows,
                           int64_t width, float* out, int64_t out_stride) {
    UnpackedGroup group;
    for (int64_t begin = 0; begin < width; begin += kGroupColumns) {
        const int64_t columns = width - begin < kGroupColumns ? width - begin : kGroupColumns;
        unpack_group<kType>(group_columns<kType>(rows, begin / kGroupColumns), columns, group);
        const auto run = [&](auto known) {
            accumulate_group(weights, weight_stride, n_queries, group, rows.n, known, out + begin, out_stride);
        };
        columns == kGroupColumns ? run(Width<kGroupColumns>()) : run(columns);
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
