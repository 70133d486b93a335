#include "calibration.h"

#include <string>

#include "kvplane/sdk/host.hpp"

namespace kvplane::infinigen {

using RowMatrixXf = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Calibration::Calibration(const kvp_kv_model& model)
    : n_layers_(model.n_layers),
      n_heads_(model.n_heads),
      n_kv_heads_(model.n_kv_heads),
      head_size_(model.head_size),
      grams_(size_t{model.n_layers} * model.n_kv_heads) {}

void Calibration::add(uint32_t layer, const float* query, int64_t n_rows) {
    if (layer >= n_layers_) throw kvp::Failure(KVP_ERROR_INVALID, "calibration: no layer " + std::to_string(layer));
    const auto d = static_cast<Eigen::Index>(head_size_);
    const auto rows = Eigen::Map<const RowMatrixXf>(query, n_rows, static_cast<Eigen::Index>(n_heads_) * d);
    const uint32_t group = n_heads_ / n_kv_heads_;
    for (uint32_t head = 0; head < n_heads_; head++) {
        Eigen::MatrixXd& gram = grams_[size_t{layer} * n_kv_heads_ + head / group];
        if (gram.size() == 0) gram = Eigen::MatrixXd::Zero(d, d);
        const Eigen::MatrixXd part = rows.middleCols(static_cast<Eigen::Index>(head) * d, d).cast<double>();
        gram.noalias() += part.transpose() * part;
    }
}

SkewMatrices Calibration::finish() const {
    SkewMatrices matrices{n_layers_, n_kv_heads_, head_size_, {}};
    matrices.values.resize(n_layers_ * matrices.layer_values());
    const auto d = static_cast<Eigen::Index>(head_size_);
    float* values = matrices.values.data();
    for (size_t i = 0; i < grams_.size(); i++, values += d * d) {
        if (grams_[i].size() == 0) {
            throw kvp::Failure(KVP_ERROR_INVALID,
                               "calibration: layer " + std::to_string(i / n_kv_heads_) + " has seen no row");
        }
        const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(grams_[i]);
        if (solver.info() != Eigen::Success) {
            throw kvp::Failure(KVP_ERROR_INVALID, "calibration: the queries of layer " +
                                                      std::to_string(i / n_kv_heads_) + " are not finite");
        }
        Eigen::MatrixXd vectors = solver.eigenvectors().rowwise().reverse();  // Eigen's rise, ours fall
        for (Eigen::Index column = 0; column < d; column++) {
            Eigen::Index largest = 0;
            vectors.col(column).cwiseAbs().maxCoeff(&largest);
            if (vectors(largest, column) < 0) vectors.col(column) *= -1;
        }
        Eigen::Map<RowMatrixXf>(values, d, d) = vectors.cast<float>();
    }
    return matrices;
}

}  // namespace kvplane::infinigen
