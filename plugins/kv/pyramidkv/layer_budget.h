// PyramidKV's budgets: the first layers keep more rows than the last, in equal steps.
#pragma once

#include <cstdint>

namespace kvplane::pyramidkv {

struct Pyramid {
    int64_t n_layers;
    int64_t beta;  // the last layer chooses a beta-th of the mean, the first what that leaves
};

// Rows that a layer chooses of n candidates, where all layers together choose about n_layers * mean.
int64_t chosen_rows(const Pyramid& pyramid, uint32_t layer, int64_t n, int64_t mean);

}  // namespace kvplane::pyramidkv
