// A text of queries and keys of a golden file (tests/reference/kv_selections.py), run through a strategy with the ops of the
// cpu device.
#pragma once

#include "rows_read.h"
#include "support/golden.h"

namespace kvplane::test {

class GoldenText {
public:
    explicit GoldenText(const std::string& name)
        : golden(read_golden(name + ".json")),
          model(model_of(golden)),
          query_(scaled(golden["q"], golden["scale"])),
          key_(scaled(golden["k"], golden["scale"])) {}

    static kvp_kv_model model_of(const nlohmann::json& golden) {
        auto model = small_model();
        model.n_layers = golden["layers"];
        model.n_kv_heads = golden["kv_heads"];
        model.n_heads = model.n_kv_heads * golden["group"].get<uint32_t>();
        model.head_size = golden["d"];
        return model;
    }

    int64_t prompt() const { return golden["prompt"]; }
    int64_t tokens() const { return golden["tokens"]; }

    // Tokens [begin, end), as a step brings them to a layer.
    FakeRows rows(const FakeKvCore& core, int64_t begin, int64_t end, uint32_t layer = 0) const {
        FakeRows made = core.plain_rows(end - begin);
        const int64_t query_width = int64_t{model.n_heads} * model.head_size;
        const int64_t key_width = int64_t{model.n_kv_heads} * model.head_size;
        made.query = part(query_, layer * tokens() + begin, layer * tokens() + end, query_width);
        made.key = part(key_, layer * tokens() + begin, layer * tokens() + end, key_width);
        return made;
    }

    nlohmann::json golden;
    kvp_kv_model model;

private:
    std::vector<float> query_, key_;  // [layers][tokens][heads * d]
};

}  // namespace kvplane::test
