#include "packed_weights.h"

#include <algorithm>
#include <cstring>
#include <vector>

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
    const bool eight = weights.format == PanelFormat::Q8_0;
    const int64_t n_blocks = weights.columns / kBlock;
    const int64_t steps = eight ? 8 : 4;
    const int64_t header = block_header_bytes(weights.format);
    const int64_t quant_bytes = steps * 4 * kPanelRows;
    const uint8_t* in = weights.row(row);
    for (int64_t block = 0; block < n_blocks; ++block, in += block_bytes(weights.format)) {
        uint8_t* out = panel + block * block_bytes(weights.format) * kPanelRows;
        for (int64_t i = 0; i < header; i += 2) {
            std::memcpy(out + quant_bytes + i * kPanelRows + lane * 2, in + i, 2);
        }
        const uint8_t* quants = in + header;
        const auto nibble = [quants](int64_t i) { return i < 16 ? quants[i] & 15 : quants[i - 16] >> 4; };
        for (int64_t step = 0; step < steps; ++step) {
            uint8_t* word = out + (step * kPanelRows + lane) * 4;
            for (int64_t j = 0; j < 4; ++j) {
                word[j] = static_cast<uint8_t>(eight ? quants[4 * step + j] ^ 0x80
                                                     : nibble(8 * step + j) | nibble(8 * step + 4 + j) << 4);
            }
        }
    }
}

template <typename T>
void scatter_row(const T* row, int64_t n, uint8_t* panel, int64_t lane) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < n; ++i) std::memcpy(panel + (i * kPanelRows + lane) * kBytes, row + i, sizeof(T));
}

}  // namespace

uint64_t packed_bytes(PanelFormat format, int64_t rows, int64_t width) {
    return static_cast<uint64_t>((rows + kPanelRows - 1) / kPanelRows * panel_bytes_of(format, width));
}

PackedWeights pack(const Weights& weights, PanelFormat format, ThreadPool& pool) {
    PackedWeights packed{format, weights.rows, weights.columns, panel_bytes_of(format, weights.columns),
                         allocate(packed_bytes(format, weights.rows, weights.columns))};
    std::vector<float> decoded(static_cast<size_t>(weights.columns) * pool.n_threads());
    pool.run_ranges(packed.n_panels(), 1, [&](int64_t begin, int64_t end, uint32_t worker) {
        float* line = decoded.data() + static_cast<int64_t>(worker) * weights.columns;
        for (int64_t i = begin; i < end; ++i) {
            uint8_t* panel = packed.memory.get() + i * packed.panel_bytes;
            std::memset(panel, 0, static_cast<size_t>(packed.panel_bytes));
            const int64_t n_rows = std::min(kPanelRows, weights.rows - i * kPanelRows);
            for (int64_t lane = 0; lane < n_rows; ++lane) {
                const int64_t row = i * kPanelRows + lane;
                if (is_k_quant(format)) {
                    pack_k_row(weights, row, panel, lane);
                } else if (is_quantised(format)) {
                    pack_quantised_row(weights, row, panel, lane);
                } else if (format == PanelFormat::F32) {
                    decode_row(weights, row, line);
                    scatter_row(line, weights.columns, panel, lane);
                } else {
                    scatter_row(reinterpret_cast<const uint16_t*>(weights.row(row)), weights.columns, panel, lane);
                }
            }
        }
    });
    return packed;
}

}  // namespace kvplane::cpu
