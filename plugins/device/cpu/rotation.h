// Rotary positions: which pairs of a head turn, and the cosines and sines of a step's positions.
#pragma once

#include <vector>

#include "op.h"

namespace kvplane::cpu {

class Rotation {
public:
    // Throws PluginError unless these fit each other.
    static void check(const kvp_rope_attributes& attributes, const kvp_tensor& frequencies);
    Rotation(const kvp_rope_attributes& attributes, const kvp_tensor& frequencies);

    int64_t head_size() const { return head_size_; }

    // The table of these positions, in the queue's workspace; made anew only where the last call had others, as all
    // layers of a step have the same.
    const RotationTable& table(kvp_queue& queue, const int32_t* positions, int64_t n_rows) const;
    // One head of a row of the table.
    void rotate(const Kernels& kernels, const RotationTable& table, int64_t row, float* head) const {
        const auto n_pairs = static_cast<int64_t>(frequencies_.size());
        const auto turn = halves_ ? kernels.rotate_halves : kernels.rotate_interleaved;
        turn(head, table.cosines.data() + row * n_pairs, table.sines.data() + row * n_pairs, n_pairs);
    }

private:
    bool halves_;
    int64_t head_size_;
    float magnitude_;
    std::vector<float> frequencies_;
};

}  // namespace kvplane::cpu
