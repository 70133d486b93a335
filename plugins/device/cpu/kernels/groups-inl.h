// Rows whose values are codes with a scale and a minimum for each 64 of them (ops.h): written, and widened to f32.
#pragma once

#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

constexpr float kMostHalf = 65504.0f;

void to_bf16(const float* x, uint16_t* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t bits = float_to_bits(x[i]);
        const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
        out[i] = static_cast<uint16_t>((is_nan ? bits | 0x400000u : bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
    }
}

void to_groups(RowType type, const float* x, uint8_t* codes, uint16_t* scales, int64_t n) {
    const float most = type == RowType::I4Groups ? 15.0f : 255.0f;
    for (int64_t begin = 0; begin < n; begin += kGroupColumns) {
        const int64_t count = n - begin < kGroupColumns ? n - begin : kGroupColumns;
        const bool is_padded = count < kGroupColumns;
        float limited[kGroupColumns];
        float low = is_padded ? 0.0f : kMostHalf;
        float high = is_padded ? 0.0f : -kMostHalf;
        float finite = 0;  // NaN if any is infinite or NaN: codes cannot say so
        for (int64_t i = 0; i < count; ++i) {
            const float value = x[begin + i];
            finite += value * 0.0f;
            limited[i] = value > kMostHalf ? kMostHalf : value < -kMostHalf ? -kMostHalf : value;
            low = limited[i] < low ? limited[i] : low;
            high = limited[i] > high ? limited[i] : high;
        }
        const float reciprocal = high > low ? most / (high - low) : 1.0f;
        uint16_t pair[2];
        pair[0] = float_to_half(reciprocal < kMostHalf ? reciprocal : kMostHalf);
        pair[1] = float_to_half(low + finite);
        memcpy(scales + begin / kGroupColumns * 2, pair, sizeof pair);
        const float scale = half_to_float(pair[0]);
        const float minimum = half_to_float(float_to_half(low));
        uint8_t code[kGroupColumns];
        for (int64_t i = 0; i < count; ++i) {
            float value = __builtin_rintf((limited[i] - minimum) * scale);
            value = value > 0.0f ? value : 0.0f;  // of NaN too
            code[i] = static_cast<uint8_t>(value < most ? value : most);
        }
        if (type == RowType::I8Groups) {
            memcpy(codes + begin, code, static_cast<size_t>(count));
        } else {
            for (int64_t i = 0; i < count; i += 2) {
                codes[(begin + i) / 2] = static_cast<uint8_t>(code[i] << 4 | code[i + 1]);
            }
        }
    }
}

// 16 codes in order.
template <RowType kType>
HWY_INLINE hn::Vec<hn::FixedTag<uint8_t, 16>> sixteen_codes(const uint8_t* codes, int64_t i) {
    constexpr hn::FixedTag<uint8_t, 16> bytes;
    if constexpr (kType == RowType::I8Groups) {
        return hn::LoadU(bytes, codes + i);
    } else {
        constexpr hn::FixedTag<uint64_t, 2> words;
        uint64_t pairs;
        memcpy(&pairs, codes + i / 2, sizeof pairs);
        const auto both = hn::BitCast(bytes, hn::Set(words, pairs));
        const auto even = hn::And(hn::BitCast(bytes, hn::ShiftRight<4>(hn::BitCast(words, both))), hn::Set(bytes, 15));
        return hn::InterleaveLower(bytes, even, hn::And(both, hn::Set(bytes, 15)));
    }
}

template <RowType kType>
void widen_groups(const Rows& rows, int64_t width, float* out) {
    constexpr hn::FixedTag<uint8_t, 16> bytes;
    constexpr hn::Rebind<uint8_t, D> few;
    for (int64_t row = 0; row < rows.n; ++row) {
        const uint8_t* codes = rows.at[row] + rows.offset;
        const uint8_t* scales = rows.at[row] + rows.scale;
        float* line = out + row * width;
        prefetch_next(rows, row);
        for (int64_t begin = 0; begin < width; begin += kGroupColumns, scales += 4) {
            uint16_t pair[2];
            memcpy(pair, scales, sizeof pair);
            const F step = set(1.0f / half_to_float(pair[0]));
            const F minimum = set(half_to_float(pair[1]));
            const int64_t end = begin + kGroupColumns < width ? begin + kGroupColumns : width;
            for (int64_t i = begin; i < end; i += 16) {
                const auto code = sixteen_codes<kType>(codes, i);
                alignas(16) uint8_t stored[16];
                if constexpr (kLanes < 16) hn::Store(code, bytes, stored);
                for (int64_t j = 0; j < 16; j += kLanes) {
                    hn::Vec<decltype(few)> part;
                    if constexpr (kLanes == 16) {
                        part = code;
                    } else {
                        part = hn::LoadU(few, stored + j);
                    }
                    const F value = hn::ConvertTo(kF, hn::PromoteTo(kI32, part));
                    store(hn::MulAdd(value, step, minimum), line + i + j);
                }
            }
        }
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();
