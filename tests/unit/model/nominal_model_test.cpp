#include "model/nominal_model.h"

#include <gtest/gtest.h>

namespace kvplane::test {
namespace {

TEST(NominalModel, is_what_its_description_says_and_takes_texts_as_long_as_asked) {
    const NominalModel nominal(100'000);
    const ModelShape& shape = nominal.model().shape();
    EXPECT_EQ(NominalModel::description, "a nominal model of 4 layers with a KV head of 64");
    EXPECT_EQ(shape.layers, 4u);
    EXPECT_EQ(shape.kv_heads, 1u);
    EXPECT_EQ(shape.head_size, 64u);
    EXPECT_EQ(shape.context_length, 100'000u);
    EXPECT_TRUE(nominal.model().warnings().empty());
}

}  // namespace
}  // namespace kvplane::test
