// Where the parts of a packed super-block of 16 rows lie; packed_k_weights.h says what is in them.
#pragma once

#include "kernels/kernels.h"

namespace kvplane::cpu {

struct KPanelLayout {
    int64_t high_bits;  // of a quant, above the nibble
    int64_t n_scales;
    bool has_minima;
    int64_t high;  // byte offsets, after the nibbles
    int64_t scales;
    int64_t minima;
    int64_t d;
    int64_t d_minimum;
    int64_t bytes;
};

// `static`: each level keeps its own copy, as of all it uses.
[[maybe_unused]] static constexpr KPanelLayout k_panel_layout(PanelFormat format) {
    const bool six = format == PanelFormat::Q6_K;
    KPanelLayout layout = {};
    layout.high_bits = six ? 2 : format == PanelFormat::Q5_K ? 1 : 0;
    layout.n_scales = six ? 16 : 8;
    layout.has_minima = !six;
    layout.high = kSuperBlock / 2 * kPanelRows;
    layout.scales = layout.high + kSuperBlock * layout.high_bits / 8 * kPanelRows;
    layout.minima = layout.scales + layout.n_scales * kPanelRows;
    layout.d = layout.minima + (layout.has_minima ? 8 * kPanelRows : 0);
    layout.d_minimum = layout.d + 2 * kPanelRows;
    layout.bytes = (layout.d_minimum + (layout.has_minima ? 2 * kPanelRows : 0) + 63) / 64 * 64;
    return layout;
}

}  // namespace kvplane::cpu
