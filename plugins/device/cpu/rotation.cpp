#include "rotation.h"

#include <algorithm>
#include <cmath>

namespace kvplane::cpu {

void Rotation::check(const kvp_rope_attributes& attributes, const kvp_tensor& frequencies) {
    if (attributes.style != KVP_ROPE_HALVES && attributes.style != KVP_ROPE_INTERLEAVED)
        unsupported("unknown style of rope");
    if (attributes.dimensions == 0 || attributes.dimensions % 2 != 0 || attributes.dimensions > attributes.head_size) {
        invalid("rope turns an even number of dimensions, at most the head size");
    }
    const Matrix<float> values = f32_matrix(frequencies, "frequencies");
    if (values.rows * values.columns != attributes.dimensions / 2) {
        invalid("rope needs one frequency for each two dimensions");
    }
}

Rotation::Rotation(const kvp_rope_attributes& attributes, const kvp_tensor& frequencies)
    : halves_(attributes.style == KVP_ROPE_HALVES), head_size_(attributes.head_size), magnitude_(attributes.magnitude) {
    const float* values = f32_matrix(frequencies, "frequencies").data;
    frequencies_.assign(values, values + attributes.dimensions / 2);
}

const RotationTable& Rotation::table(kvp_queue& queue, const int32_t* positions, int64_t n_rows) const {
    RotationTable& table = queue.workspace.rotations;
    if (table.frequencies == frequencies_ && table.magnitude == magnitude_ &&
        std::equal(table.positions.begin(), table.positions.end(), positions, positions + n_rows)) {
        return table;
    }
    const auto n_pairs = static_cast<int64_t>(frequencies_.size());
    table.positions.clear();  // a failed allocation below must not leave a table that looks whole
    table.frequencies = frequencies_;
    table.magnitude = magnitude_;
    table.cosines.resize(static_cast<size_t>(n_rows * n_pairs));
    table.sines.resize(static_cast<size_t>(n_rows * n_pairs));
    constexpr int64_t kRowsPerPart = 8;
    queue.device.pool.run_ranges(n_rows, kRowsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
        for (int64_t i = begin; i < end; ++i) {
            for (int64_t j = 0; j < n_pairs; ++j) {
                const double angle = positions[i] * static_cast<double>(frequencies_[static_cast<size_t>(j)]);
                table.cosines[static_cast<size_t>(i * n_pairs + j)] = static_cast<float>(std::cos(angle)) * magnitude_;
                table.sines[static_cast<size_t>(i * n_pairs + j)] = static_cast<float>(std::sin(angle)) * magnitude_;
            }
        }
    });
    table.positions.assign(positions, positions + n_rows);
    return table;
}

}  // namespace kvplane::cpu
