// The packed weights of products that share one input, their panels counted one weight after the other, so that
// parts of all of them go to the threads alike. What every op made of such products is built on.
#pragma once

#include <span>
#include <vector>

#include "op.h"
#include "packed_weights.h"

namespace kvplane::cpu {

// Rows and panels of one part.
struct Block {
    int64_t row_begin;
    int64_t row_end;
    int64_t panel_begin;
    int64_t panel_end;
};

class LinearWeights {
public:
    // Constants `first` to `last` (not included) of a request, in their own formats or, exact, in f32.
    LinearWeights(const Request& request, uint32_t first, uint32_t last, bool exact_f32, ThreadPool& pool);
    // Throws PluginError unless these constants are weights of one width; the bytes that they take when packed.
    static uint64_t check(const Request& request, uint32_t first, uint32_t last, bool exact_f32);

    size_t size() const { return weights_.size(); }
    int64_t rows(size_t index) const { return weights_[index].rows; }
    int64_t n_panels(size_t index) const { return weights_[index].n_panels(); }
    int64_t width() const { return weights_.front().width; }
    int64_t n_panels() const { return n_panels_; }
    // Whether a weight asks for activations in int8.
    bool quantised() const { return quantised_; }

    // x as these weights read it: int8 blocks in the queue's workspace where they ask for them.
    Activations activations(kvp_queue& queue, const Matrix<float>& x) const;

    // out[i][row][column] (+)= x[row] . weights[i][column], a row of out[i] being as wide as the weight.
    void multiply(const Kernels& kernels, const Activations& in, std::span<float* const> out, const Block& block,
                  bool accumulate) const;

private:
    std::vector<PackedWeights> weights_;
    int64_t n_panels_ = 0;
    bool quantised_ = false;
};

}  // namespace kvplane::cpu
