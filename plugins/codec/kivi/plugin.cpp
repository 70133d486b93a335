// kivi: K in groups of 32 tokens of one channel, V in groups of 32 channels of one token (KIVI, arXiv 2402.02750). The
// newest tokens stay f16, and a prompt's step reads its own rows as f16. K and V leave the newest together, 32 tokens at a time.
//
// A block of 32 tokens of one KV head, d channels:
//   K codes  [d][32] of `bits`, the earliest token in the lowest bits      K  [d][scale, minimum] f16
//   V codes  [32][d] of `bits`, the first channel in the lowest bits       V  [32][ceil(d / 32)][scale, minimum] f16
// x = code * scale + minimum, scale = (max - min) / (2^bits - 1); 0, and codes of 0, where all are equal.
#include <algorithm>
#include <cmath>

#include "kvplane/codec.h"
#include "kvplane/sdk/half.hpp"
#include "kvplane/sdk/plugin.hpp"

KVP_MANIFEST(KVP_MANIFEST_JSON("codec", "kivi", "1.0.0"));

namespace {

constexpr uint32_t block = 32;  // tokens
constexpr uint32_t group = 32;  // of tokens for K, of channels for V

kvp::Host host;
uint32_t bits = 4;
uint32_t recent = 128;

struct Layout {
    explicit Layout(uint32_t head_size) : d(head_size), value_groups((head_size + group - 1) / group) {}

    uint64_t codes_bytes() const { return uint64_t{block} * d * bits / 8; }
    uint64_t key_scales() const { return codes_bytes(); }
    uint64_t value_codes() const { return key_scales() + uint64_t{d} * 4; }
    uint64_t value_scales() const { return value_codes() + codes_bytes(); }
    uint64_t bytes() const { return value_scales() + uint64_t{block} * value_groups * 4; }

    uint32_t d;
    uint32_t value_groups;
};

float load_half(const uint8_t* at) {
    uint16_t half;
    std::memcpy(&half, at, sizeof half);
    return kvp::half_to_float(half);
}

float store_half(float x, uint8_t* at) {
    const uint16_t half = kvp::float_to_half(x);
    std::memcpy(at, &half, sizeof half);
    return kvp::half_to_float(half);
}

// n values, a multiple of 16, `stride` apart.
void encode_group(const uint16_t* in, uint32_t n, uint32_t stride, uint8_t* codes, uint8_t* scales) {
    float x[group] = {};
    for (uint32_t i = 0; i < n; i++) x[i] = kvp::half_to_float(in[i * stride]);
    const float low = *std::min_element(x, x + n);
    const float high = *std::max_element(x, x + n);
    float finite = 0;
    for (uint32_t i = 0; i < n; i++) finite += x[i] * 0.0f;  // NaN of what codes cannot say
    const auto most = static_cast<float>((1u << bits) - 1);
    const float scale = store_half((high - low) / most + finite, scales);
    const float minimum = store_half(low, scales + 2);
    std::fill(codes, codes + n * bits / 8, uint8_t{0});
    for (uint32_t i = 0; i < n; i++) {
        const float code = scale > 0 ? std::clamp(std::nearbyint((x[i] - minimum) / scale), 0.0f, most) : 0.0f;
        codes[i * bits / 8] = static_cast<uint8_t>(codes[i * bits / 8] | static_cast<uint32_t>(code) << i * bits % 8);
    }
}

template <uint32_t width>
void decode_group(const uint8_t* codes, const uint8_t* scales, uint32_t n, uint32_t stride, uint16_t* out) {
    const float scale = load_half(scales);
    const float minimum = load_half(scales + 2);
    uint16_t values[1u << width];  // all that a group has
    for (uint32_t code = 0; code < 1u << width; code++) {
        values[code] = kvp::float_to_half(static_cast<float>(code) * scale + minimum);
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i * stride] = values[codes[i * width / 8] >> i * width % 8 & ((1u << width) - 1)];
    }
}

kvp_status info(uint32_t head_size, kvp_codec_info* answer) {
    if (head_size % 16 != 0) {
        host.set_error("kivi: the head size must be a multiple of 16");
        return KVP_UNSUPPORTED;
    }
    answer->row_type = 0;
    answer->block_tokens = block;
    answer->recent_tokens = recent;
    answer->reads_own_step = 1;
    answer->summary = kvp::str(bits == 4 ? std::string_view("kivi: 4 bits, K by channel over 32 tokens, V by token")
                                         : std::string_view("kivi: 2 bits, K by channel over 32 tokens, V by token"));
    return KVP_OK;
}

kvp_status encode(uint32_t d, uint64_t n_tokens, const uint16_t* rows, void* encoded) {
    const Layout layout(d);
    auto* at = static_cast<uint8_t*>(encoded);
    for (; n_tokens >= block; n_tokens -= block, rows += uint64_t{block} * 2 * d, at += layout.bytes()) {
        for (uint32_t channel = 0; channel < d; channel++) {
            encode_group(rows + channel, block, 2 * d, at + channel * (block * bits / 8),
                         at + layout.key_scales() + channel * 4);
        }
        for (uint32_t token = 0; token < block; token++) {
            for (uint32_t g = 0; g < layout.value_groups; g++) {
                const uint32_t begin = g * group;
                encode_group(rows + token * 2 * d + d + begin, std::min(group, d - begin), 1,
                             at + layout.value_codes() + (token * d + begin) * bits / 8,
                             at + layout.value_scales() + (token * layout.value_groups + g) * 4);
            }
        }
    }
    return n_tokens == 0 ? KVP_OK : KVP_ERROR_INVALID;
}

template <uint32_t width>
void decode_blocks(uint32_t d, uint64_t n_blocks, const uint8_t* at, uint16_t* rows) {
    const Layout layout(d);
    for (; n_blocks > 0; n_blocks--, rows += uint64_t{block} * 2 * d, at += layout.bytes()) {
        for (uint32_t channel = 0; channel < d; channel++) {
            decode_group<width>(at + channel * (block * width / 8), at + layout.key_scales() + channel * 4, block,
                                2 * d, rows + channel);
        }
        for (uint32_t token = 0; token < block; token++) {
            for (uint32_t g = 0; g < layout.value_groups; g++) {
                const uint32_t begin = g * group;
                decode_group<width>(at + layout.value_codes() + (token * d + begin) * width / 8,
                                    at + layout.value_scales() + (token * layout.value_groups + g) * 4,
                                    std::min(group, d - begin), 1, rows + token * 2 * d + d + begin);
            }
        }
    }
}

kvp_status decode(uint32_t d, uint64_t n_tokens, const void* encoded, uint16_t* rows) {
    if (n_tokens % block != 0) return KVP_ERROR_INVALID;
    (bits == 4 ? decode_blocks<4> : decode_blocks<2>)(d, n_tokens / block, static_cast<const uint8_t*>(encoded), rows);
    return KVP_OK;
}

uint64_t encoded_bytes(uint32_t d, uint64_t n_tokens) {
    return n_tokens * Layout(d).bytes() / block;
}

constexpr kvp_codec codec = [] {
    auto made = kvp::make<kvp_codec>();
    made.info = info;
    made.encode = encode;
    made.decode = decode;
    made.encoded_bytes = encoded_bytes;
    return made;
}();

constexpr auto options =
    kvp::options(kvp::option_i64("bits", "4", 2, 4, "bits of a code: 2 or 4"),
                 kvp::option_i64("recent_tokens", "128", 0, 4096, "newest tokens that stay f16, at least"));
constexpr auto option_pointers = kvp::pointers(options);

kvp_status init(const kvp_host* given) {
    host = kvp::Host(given);
    return host.guard([&] {
        bits = static_cast<uint32_t>(host.option_i64("bits"));
        if (bits == 3) throw kvp::Failure(KVP_ERROR_INVALID, "codec.kivi.bits must be 2 or 4");
        recent = static_cast<uint32_t>(host.option_i64("recent_tokens"));
    });
}

void fini() {
    host = kvp::Host();
}

const void* get_kind(kvp_str kind) {
    return kvp::view(kind) == KVP_KIND_CODEC ? &codec : nullptr;
}

constexpr auto descriptor = kvp::describe("kivi", "1.0.0", "kvplane", option_pointers, init, fini, get_kind);

}  // namespace

KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host*) {
    return &descriptor;
}
