// A sequence's cached rows for the tests: groups in any order in memory, and what they hold as doubles.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>

#include "levels.h"

namespace kvplane::test {

constexpr uint32_t kRowTypes[] = {KVP_TYPE_F32,  KVP_TYPE_F16,       KVP_TYPE_I8,
                                  KVP_TYPE_BF16, KVP_TYPE_I8_GROUPS, KVP_TYPE_I4_GROUPS};

class CachedSequence {
public:
    CachedSequence(int64_t n_tokens, int64_t n_kv_heads, int64_t head_size, int64_t group_tokens, uint32_t type,
                   uint32_t seed)
        : n_tokens_(n_tokens), d_(head_size), group_tokens_(group_tokens), type_(type) {
        const int64_t n_groups = (n_tokens + group_tokens - 1) / group_tokens;
        const auto group_bytes = static_cast<size_t>(group_tokens * row_bytes());
        // Rows that no token has are NaN: reading one shows.
        memory_.assign(static_cast<size_t>(n_groups * n_kv_heads) * group_bytes, 0xFF);
        std::vector<size_t> order(static_cast<size_t>(n_groups * n_kv_heads));
        std::iota(order.begin(), order.end(), size_t{0});
        std::shuffle(order.begin(), order.end(), std::mt19937(seed));
        for (const size_t place : order)
            groups_.push_back(reinterpret_cast<uint64_t>(memory_.data()) + place * group_bytes);
        rows_ = structure<kvp_rows>();
        rows_.groups = address_of(groups_);
        rows_.groups_stride = static_cast<uint64_t>(n_groups);
        rows_.n_kv_heads = static_cast<uint32_t>(n_kv_heads);
        rows_.head_size = static_cast<uint32_t>(head_size);
        rows_.group_tokens = static_cast<uint32_t>(group_tokens);
        rows_.type = type;
    }

    void fill(uint32_t seed) {
        const auto values = random_floats(static_cast<size_t>(n_tokens_ * rows_.n_kv_heads * 2 * d_), seed);
        size_t at = 0;
        for (int64_t token = 0; token < n_tokens_; ++token) {
            for (int64_t head = 0; head < rows_.n_kv_heads; ++head) {
                for (int64_t i = 0; i < 2 * d_; ++i) set(head, token, i, values[at++]);
            }
        }
    }

    // K||V.
    const double* row(int64_t head, int64_t token) const {
        auto& values = read_[{head, token}];
        for (int64_t i = static_cast<int64_t>(values.size()); i < 2 * d_; ++i) values.push_back(get(head, token, i));
        return values.data();
    }
    // Element i of K||V.
    double get(int64_t head, int64_t token, int64_t i) const {
        const uint8_t* row = place(head, token);
        uint16_t bits;
        if (type_ == KVP_TYPE_F16) {
            std::memcpy(&bits, row + 2 * i, 2);
            return half_value(bits);
        }
        if (type_ == KVP_TYPE_I8) {
            std::memcpy(&bits, row + scale_offset(i), 2);
            return half_value(bits) * static_cast<int8_t>(row[i]);
        }
        if (type_ == KVP_TYPE_BF16) {
            std::memcpy(&bits, row + 2 * i, 2);
            const uint32_t wide = uint32_t{bits} << 16;
            float x;
            std::memcpy(&x, &wide, 4);
            return x;
        }
        if (in_groups()) {
            uint16_t minimum;
            std::memcpy(&bits, row + scale_offset(i), 2);
            std::memcpy(&minimum, row + scale_offset(i) + 2, 2);
            const int code = type_ == KVP_TYPE_I8_GROUPS ? row[i] : i % 2 == 0 ? row[i / 2] >> 4 : row[i / 2] & 15;
            return code / half_value(bits) + half_value(minimum);
        }
        float x;
        std::memcpy(&x, row + 4 * i, 4);
        return x;
    }
    void set(int64_t head, int64_t token, int64_t i, float x) {
        read_.erase({head, token});
        uint8_t* row = place(head, token);
        if (type_ == KVP_TYPE_F16) {
            const uint16_t bits = nearest_half(x);
            std::memcpy(row + 2 * i, &bits, 2);
        } else if (type_ == KVP_TYPE_BF16) {
            uint32_t wide;
            std::memcpy(&wide, &x, 4);
            const auto bits = static_cast<uint16_t>(wide >> 16);  // cut off: any bf16 will do
            std::memcpy(row + 2 * i, &bits, 2);
        } else if (in_groups()) {  // about -2 to 2, every row a little different
            const int most = type_ == KVP_TYPE_I8_GROUPS ? 255 : 15;
            const uint16_t scale = nearest_half(most / 4.0 + 0.01 * static_cast<double>(token % 7));
            const uint16_t minimum = nearest_half((i < d_ ? -2.0 : -1.9) + 0.05 * static_cast<double>(i / 64));
            std::memcpy(row + scale_offset(i), &scale, 2);
            std::memcpy(row + scale_offset(i) + 2, &minimum, 2);
            const auto code = static_cast<uint8_t>(
                std::lround(std::clamp((x - half_value(minimum)) * half_value(scale), 0.0, double(most))));
            if (type_ == KVP_TYPE_I8_GROUPS) {
                row[i] = code;
            } else if (i % 2 == 0) {
                row[i / 2] = static_cast<uint8_t>(code << 4 | (row[i / 2] & 15));
            } else {
                row[i / 2] = static_cast<uint8_t>((row[i / 2] & 0xF0) | code);
            }
        } else if (type_ == KVP_TYPE_I8) {  // every row its own scales, about 1 / 60
            const uint16_t bits = nearest_half((i < d_ ? 0.016 : 0.02) + 0.001 * static_cast<double>(token % 7));
            std::memcpy(row + scale_offset(i), &bits, 2);
            row[i] = static_cast<uint8_t>(std::lround(std::clamp(x / half_value(bits), -127.0, 127.0)));
        } else {
            std::memcpy(row + 4 * i, &x, 4);
        }
    }

    const kvp_rows* rows() const { return &rows_; }
    std::vector<uint64_t>& groups() { return groups_; }

private:
    uint8_t* place(int64_t head, int64_t token) const {
        const uint64_t group =
            groups_[static_cast<uint64_t>(head) * rows_.groups_stride + static_cast<uint64_t>(token / group_tokens_)];
        return reinterpret_cast<uint8_t*>(group) + token % group_tokens_ * row_bytes();
    }
    // Apart from the plugin's, by the text of ops.h.
    int64_t row_bytes() const {
        switch (type_) {
            case KVP_TYPE_F32: return 8 * d_;
            case KVP_TYPE_I8: return 2 * d_ + 4;
            case KVP_TYPE_I8_GROUPS: return 2 * d_ + 2 * n_groups() * 4;
            case KVP_TYPE_I4_GROUPS: return d_ + 2 * n_groups() * 4;
            default: return 4 * d_;
        }
    }
    bool in_groups() const { return type_ == KVP_TYPE_I8_GROUPS || type_ == KVP_TYPE_I4_GROUPS; }
    int64_t n_groups() const { return (d_ + 63) / 64; }
    int64_t scale_offset(int64_t i) const {
        if (type_ == KVP_TYPE_I8) return 2 * d_ + (i < d_ ? 0 : 2);
        const int64_t codes = type_ == KVP_TYPE_I8_GROUPS ? 2 * d_ : d_;
        return codes + (i < d_ ? i / 64 : n_groups() + (i - d_) / 64) * 4;
    }

    int64_t n_tokens_;
    int64_t d_;
    int64_t group_tokens_;
    uint32_t type_;
    std::vector<uint8_t> memory_;
    std::vector<uint64_t> groups_;
    kvp_rows rows_;
    mutable std::map<std::pair<int64_t, int64_t>, std::vector<double>> read_;  // of rows that were asked for
};

}  // namespace kvplane::test
