#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <random>

#include "aux_format.h"
#include "calibration.h"
#include "small_model.h"

namespace kvplane::infinigen {

namespace {

using Matrix = Eigen::MatrixXd;
using RowMatrixXf = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// n_rows x (heads * d), columns of unequal size, as queries are.
std::vector<float> sample(const kvp_kv_model& model, int64_t n_rows, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> mix(model.head_size * model.head_size);
    for (float& value : mix) value = normal(random);
    std::vector<float> values(static_cast<size_t>(n_rows) * model.n_heads * model.head_size);
    for (size_t i = 0; i < values.size(); i++) {
        const size_t column = i % model.head_size;
        values[i] = normal(random) / static_cast<float>(1 + column) + 0.3f * mix[column];
    }
    return values;
}

Matrix matrix_of(const SkewMatrices& matrices, uint32_t layer, uint32_t kv_head) {
    const Eigen::Index d = matrices.head_size;
    return Eigen::Map<const RowMatrixXf>(matrices.layer(layer).data() + kv_head * d * d, d, d).cast<double>();
}

SkewMatrices calibrated(const kvp_kv_model& model, int64_t n_rows = 40) {
    Calibration calibration(model);
    for (uint32_t layer = 0; layer < model.n_layers; layer++) {
        calibration.add(layer, sample(model, n_rows, layer).data(), n_rows);
    }
    return calibration.finish();
}

SkewMatrices sizes_of(const kvp_kv_model& model) {
    return {model.n_layers, model.n_kv_heads, model.head_size, {}};
}

}  // namespace

TEST(Calibration, matrices_are_orthogonal) {
    const kvp_kv_model model = test::small_model();
    const SkewMatrices matrices = calibrated(model);
    for (uint32_t layer = 0; layer < model.n_layers; layer++) {
        for (uint32_t head = 0; head < model.n_kv_heads; head++) {
            const Matrix a = matrix_of(matrices, layer, head);
            EXPECT_LT((a.transpose() * a - Matrix::Identity(16, 16)).cwiseAbs().maxCoeff(), 1e-6);
        }
    }
}

TEST(Calibration, scores_do_not_change) {
    const kvp_kv_model model = test::small_model();
    const Matrix a = matrix_of(calibrated(model), 1, 1);
    const Matrix q = Matrix::Random(20, 16), k = Matrix::Random(30, 16);
    EXPECT_LT(((q * a) * (k * a).transpose() - q * k.transpose()).cwiseAbs().maxCoeff(), 1e-5);
}

TEST(Calibration, agrees_with_the_svd_of_the_stacked_queries) {
    const kvp_kv_model model = test::small_model();
    const int64_t n_rows = 40;
    const SkewMatrices matrices = calibrated(model, n_rows);
    for (uint32_t kv_head = 0; kv_head < 2; kv_head++) {
        const auto values = sample(model, n_rows, 2);  // layer 2
        const auto rows = Eigen::Map<const RowMatrixXf>(values.data(), n_rows, 64).cast<double>();
        Matrix stacked(2 * n_rows, 16);  // heads 2g and 2g + 1 share KV head g
        stacked << rows.middleCols(kv_head * 32, 16), rows.middleCols(kv_head * 32 + 16, 16);
        const Eigen::JacobiSVD<Matrix> svd(stacked, Eigen::ComputeThinU | Eigen::ComputeThinV);
        const Matrix product = svd.matrixV().transpose() * matrix_of(matrices, 2, kv_head);
        // Column by column the same direction; the sign is free.
        EXPECT_LT((product.cwiseAbs() - Matrix::Identity(16, 16)).cwiseAbs().maxCoeff(), 1e-4);
    }
}

TEST(Calibration, does_not_depend_on_how_the_sample_is_cut) {
    const kvp_kv_model model = test::small_model();
    const auto values = sample(model, 30, 5);
    Calibration whole(model), cut(model);
    for (uint32_t layer = 0; layer < model.n_layers; layer++) {
        whole.add(layer, values.data(), 30);
        cut.add(layer, values.data(), 11);
        cut.add(layer, values.data() + 11 * 64, 19);
    }
    const auto a = whole.finish().values, b = cut.finish().values;
    for (size_t i = 0; i < a.size(); i++) ASSERT_NEAR(a[i], b[i], 1e-5);
}

TEST(Calibration, names_a_layer_without_rows) {
    const kvp_kv_model model = test::small_model();
    Calibration calibration(model);
    calibration.add(0, sample(model, 5, 0).data(), 5);
    try {
        calibration.finish();
        FAIL();
    } catch (const kvp::Failure& failure) {
        EXPECT_NE(std::string(failure.what()).find("layer 1"), std::string::npos);
    }
}

TEST(AuxFormat, round_trip) {
    const kvp_kv_model model = test::small_model();
    const SkewMatrices matrices = calibrated(model);
    EXPECT_EQ(decode(encode(matrices), sizes_of(model)).values, matrices.values);
}

TEST(AuxFormat, refuses_what_is_no_calibration_of_the_model) {
    const kvp_kv_model model = test::small_model();
    const auto good = encode(calibrated(model));
    const auto status_of = [&](const std::vector<std::byte>& bytes) {
        try {
            decode(bytes, sizes_of(model));
            return kvp_status{KVP_OK};
        } catch (const kvp::Failure& failure) {
            EXPECT_NE(std::string(failure.what()).find("kvplane calibrate kv"), std::string::npos);
            return failure.status();
        }
    };
    const auto changed = [&](size_t at, int value) {
        auto bytes = good;
        bytes[at] = static_cast<std::byte>(value);
        return bytes;
    };
    ASSERT_EQ(status_of(good), KVP_OK);
    EXPECT_EQ(status_of({}), KVP_ERROR_CORRUPT);
    EXPECT_EQ(status_of({good.begin(), good.begin() + 31}), KVP_ERROR_CORRUPT);
    EXPECT_EQ(status_of({good.begin(), good.end() - 1}), KVP_ERROR_CORRUPT);
    auto longer = good;
    longer.push_back(std::byte{0});
    EXPECT_EQ(status_of(longer), KVP_ERROR_CORRUPT);
    EXPECT_EQ(status_of(changed(0, 'X')), KVP_ERROR_VERSION);
    EXPECT_EQ(status_of(changed(8, 2)), KVP_ERROR_VERSION);
    EXPECT_EQ(status_of(changed(12, 5)), KVP_ERROR_INVALID);     // layers
    EXPECT_EQ(status_of(changed(15, 0x80)), KVP_ERROR_INVALID);  // 2^31 more of them
    EXPECT_EQ(status_of(changed(20, 32)), KVP_ERROR_INVALID);    // head size
    for (size_t at : {size_t{24}, size_t{40}, good.size() - 1}) {
        EXPECT_EQ(status_of(changed(at, static_cast<int>(good[at]) ^ 1)), KVP_ERROR_CORRUPT) << at;
    }
}

TEST(AuxFormat, refuses_matrices_that_are_not_orthogonal) {
    const kvp_kv_model model = test::small_model();
    SkewMatrices matrices = calibrated(model);
    matrices.values[7] += 0.1f;
    EXPECT_THROW(decode(encode(matrices), sizes_of(model)), kvp::Failure);
    matrices.values[7] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THROW(decode(encode(matrices), sizes_of(model)), kvp::Failure);
}

}  // namespace kvplane::infinigen

namespace kvplane::test {

TEST(InfinigenCalibration, what_was_saved_is_loaded_and_used) {
    const kvp_kv_model model = small_model();
    const auto write = [](void* context, const void* data, uint64_t n_bytes) -> kvp_status {
        const auto* bytes = static_cast<const std::byte*>(data);
        static_cast<std::vector<std::byte>*>(context)->assign(bytes, bytes + n_bytes);
        return KVP_OK;
    };
    std::vector<std::byte> saved;
    {
        FakeKvCore core(plugin_path("infinigen"), model, {});
        EXPECT_EQ(core.table->aux_save(core.instance, write, &saved), KVP_ERROR_INVALID);
        const std::vector<float> query(20 * 64, 0.5f);
        for (uint32_t layer = 0; layer < 4; layer++) {
            ASSERT_EQ(core.table->calibrate(core.instance, layer, query.data(), query.data(), 20), KVP_OK);
        }
        ASSERT_EQ(core.table->aux_save(core.instance, write, &saved), KVP_OK);
    }
    FakeKvCore core(plugin_path("infinigen"), model, {{"skew", "on"}});
    ASSERT_EQ(core.table->aux_load(core.instance, saved.data(), saved.size()), KVP_OK) << core.error();
    EXPECT_NE(std::string(kvp::view(core.needs->summary)).find("skew on"), std::string::npos);
    EXPECT_EQ(core.constants.size(), 2u);  // the layers that select
    EXPECT_EQ(core.constants[0].size(), 2u * 16 * 16 * sizeof(float));
    core.open();

    FakeKvCore off(plugin_path("infinigen"), model, {{"skew", "off"}});
    ASSERT_EQ(off.table->aux_load(off.instance, saved.data(), saved.size()), KVP_OK);
    EXPECT_TRUE(off.constants.empty());
    EXPECT_NE(std::string(kvp::view(off.needs->summary)).find("skew off"), std::string::npos);

    saved.back() ^= std::byte{1};
    EXPECT_EQ(core.table->aux_load(core.instance, saved.data(), saved.size()), KVP_ERROR_CORRUPT);
}

}  // namespace kvplane::test
