#include "packed_k_weights.h"

#include <cstring>

#include "k_blocks.h"
#include "kernels/k_panel_layout.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kStep = 4 * kPanelRows;  // bytes of four elements of all rows, where an element takes one

// Nibbles of 8 elements a step; what of the elements lies above is put elsewhere.
void pack_nibbles(const KBlock& block, uint8_t* out) {
    for (int64_t step = 0; step < kSuperBlock / 8; ++step, out += kStep) {
        const uint8_t* quants = block.quants + step * 8;
        for (int64_t j = 0; j < 4; ++j) out[j] = static_cast<uint8_t>((quants[j] & 15) | (quants[j + 4] & 15) << 4);
    }
}

// What lies above the nibbles, `bits` of each element: byte j collects the elements j, 4 + j, 8 + j, ... from bit 0 up.
void pack_high_bits(const KBlock& block, int64_t bits, uint8_t* out) {
    const int64_t steps = 8 / bits;
    for (int64_t first = 0; first < kSuperBlock; first += steps * 4, out += kStep) {
        for (int64_t j = 0; j < 4; ++j) {
            int collected = 0;
            for (int64_t s = 0; s < steps; ++s) collected |= block.quants[first + s * 4 + j] >> 4 << (s * bits);
            out[j] = static_cast<uint8_t>(collected);
        }
    }
}

}  // namespace

void pack_k_row(const Weights& weights, int64_t row, uint8_t* panel, int64_t lane) {
    const KPanelLayout layout = k_panel_layout(weights.format);
    const uint8_t* in = weights.row(row);
    for (int64_t i = 0; i < weights.columns; i += kSuperBlock) {
        const KBlock block = read_k_block(weights.format, in);
        pack_nibbles(block, panel + lane * 4);
        if (layout.high_bits != 0) pack_high_bits(block, layout.high_bits, panel + layout.high + lane * 4);
        for (int64_t s = 0; s < layout.n_scales; ++s) panel[layout.scales + s * kPanelRows + lane] = block.scales[s];
        std::memcpy(panel + layout.d + lane * 2, &block.d, 2);
        if (layout.has_minima) {
            for (int64_t s = 0; s < 8; ++s) panel[layout.minima + s * kPanelRows + lane] = block.minima[s];
            std::memcpy(panel + layout.d_minimum + lane * 2, &block.d_minimum, 2);
        }
        in += block_bytes(weights.format);
        panel += layout.bytes;
    }
}

}  // namespace kvplane::cpu
