#include "k_blocks.h"

#include <cstring>

#include "half.h"

namespace kvplane::cpu {
namespace {

uint16_t load_u16(const uint8_t* p) {
    uint16_t x;
    std::memcpy(&x, p, sizeof x);
    return x;
}

// 8 scales and 8 minima of 6 bits in 12 bytes: the first four of each are the low bits of bytes 0 .. 3 and 4 .. 7, the
// others lie in the halves of bytes 8 .. 11, with their top two bits in bytes 0 .. 7.
void read_sub_scales(const uint8_t* in, KScales& read) {
    for (int i = 0; i < 4; ++i) {
        read.scales[i] = in[i] & 63;
        read.minima[i] = in[i + 4] & 63;
        read.scales[i + 4] = static_cast<uint8_t>((in[i + 8] & 15) | (in[i] >> 6) << 4);
        read.minima[i + 4] = static_cast<uint8_t>(in[i + 8] >> 4 | (in[i + 4] >> 6) << 4);
    }
}

// Quants of d, dmin, 12 bytes of sub-scales, for Q5_K 32 bytes of which bit s belongs to sub-block s, then 32 bytes for
// each two sub-blocks, the first in the low nibbles.
void read_q4_or_q5(const uint8_t* in, bool five, uint8_t* quants) {
    const uint8_t* high = in + 16;
    const uint8_t* nibbles = five ? in + 48 : in + 16;
    for (int pair = 0; pair < 4; ++pair) {
        uint8_t* out = quants + pair * 64;
        for (int i = 0; i < 32; ++i) {
            const uint8_t both = nibbles[pair * 32 + i];
            const int bits = five ? high[i] >> (2 * pair) : 0;
            out[i] = static_cast<uint8_t>((both & 15) | (bits & 1) << 4);
            out[i + 32] = static_cast<uint8_t>(both >> 4 | (bits >> 1 & 1) << 4);
        }
    }
}

// Quants of 128 bytes of nibbles, 64 of pairs of high bits, 16 scales, d. A half of the super-block has 64 and 32 bytes
// of them: nibbles low then high, pairs from the lowest up, each step giving the next 32 (of nibbles 64) elements.
void read_q6(const uint8_t* in, uint8_t* quants) {
    for (int half = 0; half < 2; ++half) {
        const uint8_t* nibbles = in + half * 64;
        const uint8_t* high = in + 128 + half * 32;
        uint8_t* out = quants + half * 128;
        for (int i = 0; i < 64; ++i) {
            const int pairs = high[i % 32] >> (i / 32 * 2);
            out[i] = static_cast<uint8_t>((nibbles[i] & 15) | (pairs & 3) << 4);
            out[i + 64] = static_cast<uint8_t>(nibbles[i] >> 4 | (pairs >> 4 & 3) << 4);
        }
    }
}

}  // namespace

KScales read_k_scales(PanelFormat format, const uint8_t* in) {
    KScales read = {};
    if (format == PanelFormat::Q6_K) {
        std::memcpy(read.scales, in + 192, 16);
        read.d = load_u16(in + 208);
    } else {
        read.d = load_u16(in);
        read.d_minimum = load_u16(in + 2);
        read_sub_scales(in + 4, read);
    }
    return read;
}

void decode_k_block(PanelFormat format, const uint8_t* in, float* out) {
    const KScales read = read_k_scales(format, in);
    const float d = half_to_float(read.d);
    uint8_t quants[kSuperBlock];
    if (format == PanelFormat::Q6_K) {
        read_q6(in, quants);
        for (int sub = 0; sub < 16; ++sub) {
            const float scale = d * static_cast<float>(static_cast<int8_t>(read.scales[sub]));
            for (int i = sub * 16; i < sub * 16 + 16; ++i) out[i] = scale * static_cast<float>(quants[i] - 32);
        }
        return;
    }
    read_q4_or_q5(in, format == PanelFormat::Q5_K, quants);
    const float d_minimum = half_to_float(read.d_minimum);
    for (int sub = 0; sub < 8; ++sub) {
        const float scale = d * static_cast<float>(read.scales[sub]);
        const float minimum = d_minimum * static_cast<float>(read.minima[sub]);
        for (int i = sub * 32; i < sub * 32 + 32; ++i) out[i] = scale * static_cast<float>(quants[i]) - minimum;
    }
}

}  // namespace kvplane::cpu
