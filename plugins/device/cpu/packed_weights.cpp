#include "packed_weights.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "byte_words.h"
#include "kernels/k_panel_layout.h"
#include "packed_k_weights.h"

namespace kvplane::cpu {
namespace {

int64_t panel_bytes_of(PanelFormat format, int64_t width) {
    int64_t bytes_of_16 = 0;
    switch (format) {
        case PanelFormat::F32: bytes_of_16 = width * 4 * kPanelRows; break;
        case PanelFormat::F16:
        case PanelFormat::BF16: bytes_of_16 = width * 2 * kPanelRows; break;
        case PanelFormat::Q4_K:
        case PanelFormat::Q5_K:
        case PanelFormat::Q6_K: bytes_of_16 = width / kSuperBlock * k_panel_layout(format).bytes; break;
        default: bytes_of_16 = width / kBlock * block_bytes(format) * kPanelRows; break;
    }
    return (bytes_of_16 + 63) / 64 * 64;
}

void pack_quantised_row(const Weights& weights, int64_t row, uint8_t* panel, int64_t lane) {
    constexpr int64_t kStep = 4 * kPanelRows;
    const bool eight = weights.format == PanelFormat::Q8_0;
    const int64_t header = block_header_bytes(weights.format);
    const int64_t bytes = block_bytes(weights.format);
    const uint8_t* in = weights.row(row);
    for (int64_t block = 0; block < weights.columns / kBlock; ++block, in += bytes, panel += bytes * kPanelRows) {
        const uint8_t* quants = in + header;
        uint8_t* out = panel + lane * 4;
        if (eight) {
            for (int64_t step = 0; step < 8; ++step) {
                store_word(out + step * kStep, load_word(quants + step * 4) ^ 0x80808080u);
            }
        } else {
            for (int64_t step = 0; step < 2; ++step) {
                const uint32_t first = load_word(quants + step * 8);
                const uint32_t second = load_word(quants + step * 8 + 4);
                store_word(out + step * kStep, join_low_nibbles(first, second));
                store_word(out + (step + 2) * kStep, join_high_nibbles(first, second));
            }
        }
        uint8_t* scales = panel + (eight ? 8 : 4) * kStep + lane * 2;
        for (int64_t i = 0; i < header; i += 2) std::memcpy(scales + i * kPanelRows, in + i, 2);
    }
}

// Rows side by side, in stretches that stay in L1.
template <typename T>
void interleave_rows(const uint8_t* const (&rows)[kPanelRows], int64_t n_rows, int64_t width, uint8_t* panel) {
    constexpr int64_t kStretch = 256;
    constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
    for (int64_t begin = 0; begin < width; begin += kStretch) {
        const int64_t end = std::min(width, begin + kStretch);
        for (int64_t lane = 0; lane < n_rows; ++lane) {
            uint8_t* out = panel + lane * kBytes;
            for (int64_t i = begin; i < end; ++i) {
                std::memcpy(out + i * kPanelRows * kBytes, rows[lane] + i * kBytes, sizeof(T));
            }
        }
    }
}

}  // namespace

uint64_t packed_bytes(PanelFormat format, int64_t rows, int64_t width) {
    return static_cast<uint64_t>((rows + kPanelRows - 1) / kPanelRows * panel_bytes_of(format, width));
}

PackedWeights pack(const Weights& weights, PanelFormat format, Device& device) {
    ThreadPool& pool = device.pool;
    PackedWeights packed{format, weights.rows, weights.columns, panel_bytes_of(format, weights.columns),
                         device.weights.allocate(packed_bytes(format, weights.rows, weights.columns))};
    const bool decode = format == PanelFormat::F32 && weights.format != PanelFormat::F32;
    const int64_t panel_elements = decode ? kPanelRows * weights.columns : 0;
    std::vector<float> decoded(static_cast<size_t>(panel_elements * pool.n_threads()));
    pool.run_ranges(packed.n_panels(), 1, [&](int64_t begin, int64_t end, uint32_t worker) {
        for (int64_t i = begin; i < end; ++i) {
            uint8_t* panel = packed.memory.get() + i * packed.panel_bytes;
            const int64_t n_rows = std::min(kPanelRows, weights.rows - i * kPanelRows);
            std::memset(panel, 0, static_cast<size_t>(packed.panel_bytes));
            const uint8_t* rows[kPanelRows] = {};
            for (int64_t lane = 0; lane < n_rows; ++lane) {
                const int64_t row = i * kPanelRows + lane;
                rows[lane] = weights.row(row);
                if (is_k_quant(format)) {
                    pack_k_row(weights, row, panel, lane);
                } else if (is_quantised(format)) {
                    pack_quantised_row(weights, row, panel, lane);
                } else if (decode) {
                    float* line = decoded.data() + worker * panel_elements + lane * weights.columns;
                    decode_row(weights, row, line);
                    rows[lane] = reinterpret_cast<const uint8_t*>(line);
                }
            }
            if (is_quantised(format)) continue;
            if (format == PanelFormat::F32) {
                interleave_rows<float>(rows, n_rows, weights.columns, panel);
            } else {
                interleave_rows<uint16_t>(rows, n_rows, weights.columns, panel);
            }
        }
    });
    return packed;
}

}  // namespace kvplane::cpu
