// A model small enough to think about, and the plugins under test.
#pragma once

#include "support/fake_kv_core.h"

namespace kvplane::test {

inline std::string plugin_path(const std::string& name) {
    return KVPLANE_PLUGIN_DIR "/" + name + ".so";
}

inline kvp_kv_model small_model() {
    auto model = kvp::make<kvp_kv_model>();
    model.n_layers = 4;
    model.n_heads = 4;
    model.n_kv_heads = 2;
    model.head_size = 16;
    model.width = 24;
    model.context = FakeKvCore::capacity;
    model.page_tokens = 64;
    model.group_tokens = 16;
    model.kv_type = KVP_TYPE_F32;
    model.norm_epsilon = 1e-5f;
    return model;
}

// f32 weights of a layer that only have to exist.
struct PlainWeights {
    explicit PlainWeights(const kvp_kv_model& model)
        : norm_values(model.width, 1.0f),
          query_values(size_t{model.n_heads} * model.head_size * model.width, 0.0f),
          norm(kvp::Tensor::f32(address_of(norm_values.data()), {model.width})),
          query(kvp::Tensor::f32(address_of(query_values.data()),
                                 {int64_t{model.n_heads} * model.head_size, model.width})) {
        weights.attention_norm = norm;
        weights.query = query;
        weights.key = query;
    }
    void give_to(FakeKvCore& core) const {
        for (uint32_t layer = 0; layer < core.model.n_layers; layer++) {
            kvp::check(core.table->weights_ready(core.instance, layer, &weights));
        }
    }

    std::vector<float> norm_values;
    std::vector<float> query_values;
    kvp::Tensor norm;
    kvp::Tensor query;
    kvp_kv_weights weights = kvp::make<kvp_kv_weights>();
};

}  // namespace kvplane::test
