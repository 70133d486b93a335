#include "eval/log_likelihood.h"

#include <Eigen/Core>
#include <cmath>

namespace kvplane::tool {

double log_likelihood(std::span<const float> logits, int32_t token) {
    const Eigen::Map<const Eigen::ArrayXf> row(logits.data(), static_cast<Eigen::Index>(logits.size()));
    const float most = row.maxCoeff();
    const double sum = (row - most).exp().cast<double>().sum();
    return double{logits[static_cast<size_t>(token)]} - most - std::log(sum);
}

}  // namespace kvplane::tool
