// The packed weights of products that share one input, their panels counted one weight after the other, so that
// parts of all of them go to the threads alike. What every op made of such products is built on.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "op.h"
#include "packed_weights.h"

namespace kvplane::cpu {

struct Range {
    int64_t begin;
    int64_t end;

    int64_t size() const { return end - begin; }
};

// An RMS norm ahead of products; without a weight there is none.
struct Norm {
    Norm() = default;
    Norm(const kvp_tensor& tensor, float eps);

    std::vector<float> weight;
    float epsilon = 0;
};

class LinearWeights {
public:
    // Constants `first` to `last` (not included) of a request, in their own formats or, exact, in f32.
    LinearWeights(const Request& request, uint32_t first, uint32_t last, bool exact_f32, Device& device);
    // Throws PluginError unless these constants are weights of one width; the bytes that they take when packed.
    static uint64_t check(const Request& request, uint32_t first, uint32_t last, bool exact_f32);

    size_t size() const { return weights_.size(); }
    int64_t rows(size_t index) const { return weights_[index].rows; }
    int64_t n_panels(size_t index) const { return weights_[index].n_panels(); }
    int64_t width() const { return weights_.front().width; }
    int64_t n_panels() const { return n_panels_; }
    // Whether a weight asks for activations in int8.
    bool quantised() const { return quantised_; }

    // x, normed, as these weights read it: in the queue's workspace where that is not x itself.
    Activations activations(kvp_queue& queue, const Matrix<float>& x, const Norm& norm = {}) const;

    // out[row][column] (+)= x[row] . weight[column] for these rows and the panels given of weight `index`. `out` is
    // where the first of the rows and columns goes.
    void multiply(const Kernels& kernels, const Activations& in, size_t index, Range rows, Range panels, float* out,
                  int64_t out_stride, bool accumulate) const;
    // The same over panels counted through all weights; out[i] is all of the output of weight i.
    void multiply(const Kernels& kernels, const Activations& in, Range rows, Range panels, std::span<float* const> out,
                  bool accumulate) const;

private:
    std::vector<PackedWeights> weights_;
    int64_t n_panels_ = 0;
    bool quantised_ = false;
};

// body(rows, units, worker) over n_rows rows of activations and n_units units of weights, such as panels: few rows
// with long runs of weights, as memory likes, many rows in parts that stay in L2 while the weights of a part pass by.
template <typename Body>
void run_parts(ThreadPool& pool, int64_t n_rows, int64_t n_units, int64_t grain, const Body& body) {
    constexpr int64_t kRowsPerPart = 256;
    constexpr int64_t kPartsPerThread = ThreadPool::kPartsPerThread;
    if (n_rows <= kRowsPerPart) {
        // Each run begins with a wait for memory, which one row does not make up for.
        if (n_rows == 1) grain *= std::max<int64_t>(1, n_units / (grain * pool.n_threads() * kPartsPerThread));
        pool.run_ranges(n_units, grain, [&](int64_t begin, int64_t end, uint32_t worker) {
            body(Range{0, n_rows}, Range{begin, end}, worker);
        });
        return;
    }
    const int64_t n_row_parts = (n_rows + kRowsPerPart - 1) / kRowsPerPart;
    const int64_t most = pool.n_threads() * kPartsPerThread;
    const int64_t size = std::max<int64_t>(grain, (n_units + most - 1) / most / grain * grain);
    const int64_t n_unit_parts = (n_units + size - 1) / size;
    pool.run(n_row_parts * n_unit_parts, [&](int64_t part, uint32_t worker) {
        const int64_t row = part / n_unit_parts * kRowsPerPart;
        const int64_t unit = part % n_unit_parts * size;
        body(Range{row, std::min(n_rows, row + kRowsPerPart)}, Range{unit, std::min(n_units, unit + size)}, worker);
    });
}

}  // namespace kvplane::cpu
