// Random super-blocks of K-quants, made by writing chosen numbers into the format's fields, and their values.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace kvplane::test {

struct KBlockNumbers {
    int quants[256];  // 0 to 15, 31 or 63
    int scales[16];   // 0 to 63, eight of them; of q6_k -128 to 127
    int minima[8];    // 0 to 63
    int d_mantissa;   // of 10 bits; d is in [2^-12, 2^-11)
    int d_minimum_mantissa;
};

inline bool is_k_quant(const std::string& format) {
    return format.size() == 4 && format.substr(2) == "_k";
}

inline KBlockNumbers random_k_numbers(const std::string& format, std::mt19937& random) {
    const int bits = format[1] - '0';
    KBlockNumbers made = {};
    for (int& q : made.quants) q = static_cast<int>(random() % (1u << bits));
    for (int& scale : made.scales) scale = bits == 6 ? static_cast<int>(random() % 256) - 128 : random() % 64;
    for (int& minimum : made.minima) minimum = static_cast<int>(random() % 64);
    made.d_mantissa = static_cast<int>(random() % 1024);
    made.d_minimum_mantissa = static_cast<int>(random() % 1024);
    return made;
}

inline void append_k_block(const std::string& format, const KBlockNumbers& n, std::vector<uint8_t>& bytes,
                           std::vector<double>& values) {
    const auto half = [](int mantissa) { return static_cast<uint16_t>(3 << 10 | mantissa); };
    const auto value = [](int mantissa) { return std::ldexp(1024 + mantissa, -22); };
    const double d = value(n.d_mantissa);
    const double d_minimum = value(n.d_minimum_mantissa);
    const uint16_t halves[2] = {half(n.d_mantissa), half(n.d_minimum_mantissa)};
    const size_t at = bytes.size();
    if (format == "q6_k") {
        bytes.resize(at + 210);
        uint8_t* const out = &bytes[at];
        for (int i = 0; i < 256; ++i) {
            const int in_half = i % 128;
            out[i / 128 * 64 + in_half % 64] |= static_cast<uint8_t>((n.quants[i] & 15) << (in_half / 64 * 4));
            out[128 + i / 128 * 32 + i % 32] |= static_cast<uint8_t>(n.quants[i] >> 4 << (in_half / 32 * 2));
            values.push_back(d * n.scales[i / 16] * (n.quants[i] - 32));
        }
        for (int i = 0; i < 16; ++i) out[192 + i] = static_cast<uint8_t>(n.scales[i]);
        std::memcpy(out + 208, halves, 2);
        return;
    }
    const bool five = format == "q5_k";
    bytes.resize(at + (five ? 176 : 144));
    uint8_t* const out = &bytes[at];
    std::memcpy(out, halves, 4);
    for (int i = 0; i < 4; ++i) {
        out[4 + i] = static_cast<uint8_t>(n.scales[i] | n.scales[i + 4] >> 4 << 6);
        out[8 + i] = static_cast<uint8_t>(n.minima[i] | n.minima[i + 4] >> 4 << 6);
        out[12 + i] = static_cast<uint8_t>((n.scales[i + 4] & 15) | (n.minima[i + 4] & 15) << 4);
    }
    for (int i = 0; i < 256; ++i) {
        out[(five ? 48 : 16) + i / 64 * 32 + i % 32] |= static_cast<uint8_t>((n.quants[i] & 15) << (i / 32 % 2 * 4));
        if (five) out[16 + i % 32] |= static_cast<uint8_t>(n.quants[i] >> 4 << (i / 32));
        values.push_back(d * n.scales[i / 32] * n.quants[i] - d_minimum * n.minima[i / 32]);
    }
}

}  // namespace kvplane::test
