// The offline skewing: per KV head an orthogonal A that packs the queries' magnitude into few columns.
//
// A = V of the SVD U S V^T of the stacked queries (after RoPE) of the heads that share the KV head. Any orthogonal A
// that the whole group shares leaves q k^T as it is: (qA)(kA)^T = q A A^T k^T. V is also the eigenvectors of the d x d
// Gram matrix of those queries, which is summed row by row, so no text is too long for memory.
#pragma once

#include <Eigen/Dense>

#include "aux_format.h"
#include "kvplane/kv.h"

namespace kvplane::infinigen {

class Calibration {
public:
    explicit Calibration(const kvp_kv_model& model);

    // query f32[n_rows, n_heads * head_size], after RoPE. May be called several times a layer.
    void add(uint32_t layer, const float* query, int64_t n_rows);

    // Columns by falling energy, each with its largest entry positive: the same sample gives the same bytes.
    // Throws kvp::Failure(KVP_ERROR_INVALID) when a layer has seen no row.
    SkewMatrices finish() const;

private:
    uint32_t n_layers_;
    uint32_t n_heads_;
    uint32_t n_kv_heads_;
    uint32_t head_size_;
    std::vector<Eigen::MatrixXd> grams_;  // [n_layers][n_kv_heads] of d x d; empty: no row yet
};

}  // namespace kvplane::infinigen
