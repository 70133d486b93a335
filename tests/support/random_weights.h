// Random blocks in the formats of GGUF, and what they stand for, decoded here by the format's text alone.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "support/device_harness.h"
#include "support/random_k_blocks.h"

namespace kvplane::test {

struct RandomWeights {
    std::string format;  // "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k", "q5_k", "q6_k"
    int64_t rows;
    int64_t columns;
    std::vector<uint8_t> bytes;
    std::vector<double> values;  // [rows][columns]

    Tensor tensor() const {
        auto* data = const_cast<uint8_t*>(bytes.data());
        if (format == "f32") return {data, {rows, columns}, {kDLFloat, 32, 1}};
        if (format == "f16") return {data, {rows, columns}, {kDLFloat, 16, 1}};
        if (format == "bf16") return {data, {rows, columns}, {kDLBfloat, 16, 1}};
        return Tensor::blocks(bytes, rows, "gguf." + format + "/1", columns);
    }
};

// An f16 of 10 random mantissa bits in [2^-6, 2^-5), and its value.
inline uint16_t random_half(std::mt19937& random, double* value) {
    const auto mantissa = static_cast<uint16_t>(random() & 1023);
    *value = std::ldexp(1024 + mantissa, -16);
    return static_cast<uint16_t>(9 << 10 | mantissa);
}

inline RandomWeights random_weights(const std::string& format, int64_t rows, int64_t columns, uint32_t seed) {
    RandomWeights made{format, rows, columns, {}, {}};
    std::mt19937 random(seed);
    const auto put = [&](const auto& x) {
        const size_t at = made.bytes.size();
        made.bytes.resize(at + sizeof x);
        std::memcpy(made.bytes.data() + at, &x, sizeof x);
    };
    if (format == "f32" || format == "f16" || format == "bf16") {
        for (int64_t i = 0; i < rows * columns; ++i) {
            double value = 0;
            uint16_t half = random_half(random, &value);
            if (format == "bf16") {
                half = static_cast<uint16_t>(121 << 7 | (random() & 127));  // [2^-6, 2^-5)
                value = std::ldexp(128 + (half & 127), -13);
            }
            const bool negative = (random() & 1) != 0;
            made.values.push_back(negative ? -value : value);
            if (format == "f32") {
                put(static_cast<float>(made.values.back()));
            } else {
                put(static_cast<uint16_t>(half | (negative ? 0x8000 : 0)));
            }
        }
        return made;
    }
    if (is_k_quant(format)) {
        for (int64_t block = 0; block < rows * columns / 256; ++block) {
            append_k_block(format, random_k_numbers(format, random), made.bytes, made.values);
        }
        return made;
    }
    for (int64_t block = 0; block < rows * columns / 32; ++block) {
        double scale = 0;
        double minimum = 0;
        put(random_half(random, &scale));
        if (format == "q4_1") {
            const uint16_t half = random_half(random, &minimum);
            put(static_cast<uint16_t>(half | 0x8000));
            minimum = -minimum;
        }
        if (format == "q8_0") {
            for (int i = 0; i < 32; ++i) {
                const auto q = static_cast<int8_t>(static_cast<int>(random() % 256) - 128);
                put(q);
                made.values.push_back(scale * q);
            }
            continue;
        }
        uint8_t quants[16];
        for (auto& q : quants) put(q = static_cast<uint8_t>(random()));
        if (format == "q4_0") minimum = -8 * scale;
        for (int i = 0; i < 16; ++i) made.values.push_back(scale * (quants[i] & 15) + minimum);
        for (int i = 0; i < 16; ++i) made.values.push_back(scale * (quants[i] >> 4) + minimum);
    }
    return made;
}

inline std::vector<float> random_floats(size_t n, uint32_t seed, float spread = 1.0f) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> values(n);
    for (float& x : values) x = normal(random);
    return values;
}

}  // namespace kvplane::test
