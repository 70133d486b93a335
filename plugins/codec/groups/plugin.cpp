// int8, int4: FlexGen's groups of 64 columns with a reciprocal scale and a minimum. i8: one scale for all of K, and one
// for V. One source, a library for each (CMakeLists.txt). The bytes are those of ops.h.
#include <algorithm>
#include <cmath>

#include "kvplane/sdk/codec.hpp"
#include "kvplane/sdk/plugin.hpp"

KVP_MANIFEST(KVP_MANIFEST_JSON("codec", KVPLANE_CODEC_ID, "1.0.0"));

namespace {

constexpr std::string_view id = KVPLANE_CODEC_ID;
constexpr uint32_t group = 64;  // columns
constexpr float most_half = 65504.0f;

uint16_t load_half(const uint8_t* at) {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return bits;
}

void store_half(uint16_t bits, uint8_t* at) {
    std::memcpy(at, &bits, sizeof bits);
}

// x = scale * code, codes of int8.
struct Symmetric {
    static constexpr uint32_t row_type = KVP_TYPE_I8;
    static constexpr std::string_view summary = "i8: 8 bits, a scale for each K and V";

    static void encode(uint32_t d, const uint16_t* row, uint8_t* encoded) {
        for (uint32_t part = 0; part < 2; part++) {
            float most = 0, finite = 0;
            for (uint32_t i = 0; i < d; i++) {
                const float x = kvp::half_to_float(row[part * d + i]);
                most = std::max(most, std::fabs(x));
                finite += x * 0.0f;  // NaN of what codes cannot say
            }
            const uint16_t bits = kvp::float_to_half(most / 127 + finite);
            const float scale = kvp::half_to_float(bits);
            for (uint32_t i = 0; i < d; i++) {
                const float x = kvp::half_to_float(row[part * d + i]);
                const float code = scale > 0 ? std::clamp(std::nearbyint(x / scale), -127.0f, 127.0f) : 0.0f;
                encoded[part * d + i] = static_cast<uint8_t>(static_cast<int8_t>(code));
            }
            store_half(bits, encoded + 2 * d + 2 * part);
        }
    }
    static void decode(uint32_t d, const uint8_t* encoded, uint16_t* row) {
        for (uint32_t part = 0; part < 2; part++) {
            const float scale = kvp::half_to_float(load_half(encoded + 2 * d + 2 * part));
            for (uint32_t i = part * d; i < (part + 1) * d; i++) {
                row[i] = kvp::float_to_half(scale * static_cast<float>(static_cast<int8_t>(encoded[i])));
            }
        }
    }
};

// x = code / scale + minimum.
template <uint32_t bits>
struct Grouped {
    static constexpr uint32_t row_type = bits == 8 ? uint32_t{KVP_TYPE_I8_GROUPS} : uint32_t{KVP_TYPE_I4_GROUPS};
    static constexpr std::string_view summary = bits == 8 ? "int8: 8 bits, a scale and a minimum for 64 columns"
                                                          : "int4: 4 bits, a scale and a minimum for 64 columns";
    static constexpr float most = bits == 8 ? 255.0f : 15.0f;

    static void encode(uint32_t d, const uint16_t* row, uint8_t* encoded) {
        uint8_t* scales = encoded + 2 * d * bits / 8;
        for (uint32_t part = 0; part < 2; part++) {
            for (uint32_t begin = 0; begin < d; begin += group, scales += 4) {
                encode_group(row + part * d + begin, std::min(group, d - begin),
                             encoded + (part * d + begin) * bits / 8, scales);
            }
        }
    }

    static void encode_group(const uint16_t* in, uint32_t n, uint8_t* codes, uint8_t* scales) {
        float x[group];
        float low = n < group ? 0.0f : most_half;  // zeros of the padding count
        float high = n < group ? 0.0f : -most_half;
        float finite = 0;
        for (uint32_t i = 0; i < n; i++) {
            const float value = kvp::half_to_float(in[i]);
            finite += value * 0.0f;
            x[i] = std::isnan(value) ? 0.0f : std::clamp(value, -most_half, most_half);
            low = std::min(low, x[i]);
            high = std::max(high, x[i]);
        }
        const float reciprocal = high > low ? most / (high - low) : 1.0f;
        const uint16_t scale_bits = kvp::float_to_half(std::min(reciprocal, most_half));
        store_half(scale_bits, scales);
        store_half(kvp::float_to_half(low + finite), scales + 2);
        const float scale = kvp::half_to_float(scale_bits);
        const float minimum = kvp::half_to_float(kvp::float_to_half(low));
        for (uint32_t i = 0; i < n; i++) {
            const auto code = static_cast<uint8_t>(std::clamp(std::nearbyint((x[i] - minimum) * scale), 0.0f, most));
            if (bits == 8) {
                codes[i] = code;
            } else if (i % 2 == 0) {
                codes[i / 2] = static_cast<uint8_t>(code << 4);
            } else {
                codes[i / 2] = static_cast<uint8_t>(codes[i / 2] | code);
            }
        }
    }

    static void decode(uint32_t d, const uint8_t* encoded, uint16_t* row) {
        const uint8_t* scales = encoded + 2 * d * bits / 8;
        for (uint32_t part = 0; part < 2; part++) {
            for (uint32_t begin = 0; begin < d; begin += group, scales += 4) {
                const float step = 1.0f / kvp::half_to_float(load_half(scales));
                const float minimum = kvp::half_to_float(load_half(scales + 2));
                for (uint32_t i = part * d + begin; i < part * d + std::min(d, begin + group); i++) {
                    const int code = bits == 8 ? encoded[i] : i % 2 == 0 ? encoded[i / 2] >> 4 : encoded[i / 2] & 15;
                    row[i] = kvp::float_to_half(static_cast<float>(code) * step + minimum);
                }
            }
        }
    }
};

constexpr kvp_codec codec = [] {
    if constexpr (id == "i8") return kvp::row_codec<Symmetric>();
    if constexpr (id == "int8") return kvp::row_codec<Grouped<8>>();
    return kvp::row_codec<Grouped<4>>();
}();

kvp_status init(const kvp_host*) {
    return KVP_OK;
}

void fini() {}

const void* get_kind(kvp_str kind) {
    return kvp::view(kind) == KVP_KIND_CODEC ? &codec : nullptr;
}

constexpr std::array<const kvp_option*, 0> options{};
constexpr auto descriptor = kvp::describe(id, "1.0.0", "kvplane", options, init, fini, get_kind);

}  // namespace

KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host*) {
    return &descriptor;
}
