// kvp.rope/1: rotates pairs of each head by position * frequency, in place.
#include <algorithm>
#include <cmath>

#include "op.h"

namespace kvplane::cpu {
namespace {

// The table of this step's positions, made anew only where the last call had others.
const RotationTable& rotations(kvp_queue& queue, const std::vector<float>& frequencies, float magnitude,
                               const int32_t* positions, int64_t n_rows) {
    RotationTable& table = queue.workspace.rotations;
    if (table.frequencies == frequencies && table.magnitude == magnitude &&
        std::equal(table.positions.begin(), table.positions.end(), positions, positions + n_rows)) {
        return table;
    }
    const auto n_pairs = static_cast<int64_t>(frequencies.size());
    table.positions.clear();  // a failed allocation below must not leave a table that looks whole
    table.frequencies = frequencies;
    table.magnitude = magnitude;
    table.cosines.resize(static_cast<size_t>(n_rows * n_pairs));
    table.sines.resize(static_cast<size_t>(n_rows * n_pairs));
    constexpr int64_t kRowsPerPart = 8;
    queue.device.pool.run_ranges(n_rows, kRowsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
        for (int64_t i = begin; i < end; ++i) {
            for (int64_t j = 0; j < n_pairs; ++j) {
                const double angle = positions[i] * static_cast<double>(frequencies[static_cast<size_t>(j)]);
                table.cosines[static_cast<size_t>(i * n_pairs + j)] = static_cast<float>(std::cos(angle)) * magnitude;
                table.sines[static_cast<size_t>(i * n_pairs + j)] = static_cast<float>(std::sin(angle)) * magnitude;
            }
        }
    });
    table.positions.assign(positions, positions + n_rows);
    return table;
}

class Rope final : public kvp_plan {
public:
    Rope(const kvp_rope_attributes& attributes, const float* frequencies)
        : halves_(attributes.style == KVP_ROPE_HALVES),
          head_size_(attributes.head_size),
          magnitude_(attributes.magnitude),
          frequencies_(frequencies, frequencies + attributes.dimensions / 2) {}

    void run(kvp_queue& queue, const Operands& operands, const void*) const override {
        operands.expect(2);
        const Matrix<float> x = operands.f32(0, "x");
        if (x.columns % head_size_ != 0) invalid("x is not a whole number of heads wide");
        const int32_t* positions = operands.i32(1, "positions", x.rows);
        const RotationTable& table = rotations(queue, frequencies_, magnitude_, positions, x.rows);
        const auto n_pairs = static_cast<int64_t>(frequencies_.size());
        const auto rotate = halves_ ? queue.device.kernels.rotate_halves : queue.device.kernels.rotate_interleaved;
        constexpr int64_t kRowsPerPart = 8;
        queue.device.pool.run_ranges(x.rows, kRowsPerPart, [&](int64_t begin, int64_t end, uint32_t) {
            for (int64_t i = begin; i < end; ++i) {
                for (int64_t head = 0; head < x.columns; head += head_size_) {
                    rotate(x.row(i) + head, table.cosines.data() + i * n_pairs, table.sines.data() + i * n_pairs,
                           n_pairs);
                }
            }
        });
    }

private:
    const bool halves_;
    const int64_t head_size_;
    const float magnitude_;
    const std::vector<float> frequencies_;
};

uint64_t check(const Device&, const Request& request) {
    request.expect_constants(1);
    const auto& attributes = request.attributes<kvp_rope_attributes>();
    if (attributes.style != KVP_ROPE_HALVES && attributes.style != KVP_ROPE_INTERLEAVED)
        unsupported("unknown style of rope");
    if (attributes.dimensions == 0 || attributes.dimensions % 2 != 0 || attributes.dimensions > attributes.head_size) {
        invalid("rope turns an even number of dimensions, at most the head size");
    }
    const Matrix<float> frequencies = f32_matrix(request.constant(0), "frequencies");
    if (frequencies.rows * frequencies.columns != attributes.dimensions / 2) {
        invalid("rope needs one frequency for each two dimensions");
    }
    return 0;
}

std::unique_ptr<kvp_plan> prepare(Device&, const Request& request) {
    return std::make_unique<Rope>(request.attributes<kvp_rope_attributes>(),
                                  f32_matrix(request.constant(0), "frequencies").data);
}

}  // namespace

const Operation kRope = {"kvp.rope/1", check, prepare};

}  // namespace kvplane::cpu
