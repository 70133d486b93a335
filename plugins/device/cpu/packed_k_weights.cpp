#include "packed_k_weights.h"

#include <cstring>

#include "byte_words.h"
#include "k_blocks.h"
#include "kernels/k_panel_layout.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kStep = 4 * kPanelRows;  // bytes of one word of all rows

// Two sub-blocks of 32 from 32 bytes with a nibble of each.
void pack_nibbles(const uint8_t* nibbles, uint8_t* first, uint8_t* second) {
    for (int64_t step = 0; step < 4; ++step) {
        const uint32_t a = load_word(nibbles + step * 8);
        const uint32_t b = load_word(nibbles + step * 8 + 4);
        store_word(first + step * kStep, join_low_nibbles(a, b));
        store_word(second + step * kStep, join_high_nibbles(a, b));
    }
}

// One word of high bits, from `bits` bits at `shift` of each byte of 32 / bits bytes: the first word's lowest.
uint32_t collect(const uint8_t* bytes, int64_t bits, int64_t shift) {
    const uint32_t mask = bits == 1 ? 0x01010101u : 0x03030303u;
    uint32_t collected = 0;
    for (int64_t s = 0; s < 8 / bits; ++s) collected |= (load_word(bytes + s * 4) >> shift & mask) << (s * bits);
    return collected;
}

// The layouts of the blocks: k_blocks.cpp.
void pack_q4_or_q5(const uint8_t* in, bool five, uint8_t* panel, const KPanelLayout& layout) {
    const uint8_t* nibbles = five ? in + 48 : in + 16;
    for (int64_t pair = 0; pair < 4; ++pair) {
        uint8_t* out = panel + pair * 8 * kStep;
        pack_nibbles(nibbles + pair * 32, out, out + 4 * kStep);
    }
    if (!five) return;
    for (int64_t sub = 0; sub < 8; ++sub) store_word(panel + layout.high + sub * kStep, collect(in + 16, 1, sub));
}

void pack_q6(const uint8_t* in, uint8_t* panel, const KPanelLayout& layout) {
    for (int64_t half = 0; half < 2; ++half) {
        uint8_t* out = panel + half * 16 * kStep;
        pack_nibbles(in + half * 64, out, out + 8 * kStep);
        pack_nibbles(in + half * 64 + 32, out + 4 * kStep, out + 12 * kStep);
        for (int64_t sub = 0; sub < 8; ++sub) {  // of 16 elements
            const uint8_t* high = in + 128 + half * 32 + sub % 2 * 16;
            store_word(panel + layout.high + (half * 8 + sub) * kStep, collect(high, 2, sub / 2 * 2));
        }
    }
}

}  // namespace

void pack_k_row(const Weights& weights, int64_t row, uint8_t* panel, int64_t lane) {
    const KPanelLayout layout = k_panel_layout(weights.format);
    const uint8_t* in = weights.row(row);
    for (int64_t i = 0; i < weights.columns; i += kSuperBlock) {
        if (weights.format == PanelFormat::Q6_K) {
            pack_q6(in, panel + lane * 4, layout);
        } else {
            pack_q4_or_q5(in, weights.format == PanelFormat::Q5_K, panel + lane * 4, layout);
        }
        const KScales scales = read_k_scales(weights.format, in);
        for (int64_t s = 0; s < layout.n_scales; ++s) panel[layout.scales + s * kPanelRows + lane] = scales.scales[s];
        std::memcpy(panel + layout.d + lane * 2, &scales.d, 2);
        if (layout.has_minima) {
            for (int64_t s = 0; s < 8; ++s) panel[layout.minima + s * kPanelRows + lane] = scales.minima[s];
            std::memcpy(panel + layout.d_minimum + lane * 2, &scales.d_minimum, 2);
        }
        in += block_bytes(weights.format);
        panel += layout.bytes;
    }
}

}  // namespace kvplane::cpu
