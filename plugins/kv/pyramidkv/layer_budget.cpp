#include "layer_budget.h"

#include <algorithm>

namespace kvplane::pyramidkv {

int64_t chosen_rows(const Pyramid& pyramid, uint32_t layer, int64_t n, int64_t mean) {
    if (n < 2 * mean || pyramid.n_layers < 2) return mean;
    int64_t least = mean / pyramid.beta;
    int64_t most = 2 * mean - least;
    if (most >= n) {
        most = n;
        least = 2 * mean - most;
    }
    const int64_t step = (most - least) / (pyramid.n_layers - 1);
    return std::max<int64_t>(most - int64_t{layer} * step, 0);
}

}  // namespace kvplane::pyramidkv
