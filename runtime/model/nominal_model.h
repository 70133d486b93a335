// A model of which nothing is known but that it is a usual one, in memory: for what has to be told before a model is named.
// It is smaller than any real one, so that budgets which do for some model do for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "model/model.h"

namespace kvplane {

class NominalModel {
public:
    // For texts of up to `context_length` tokens.
    explicit NominalModel(uint32_t context_length);

    const Model& model() const { return *model_; }

    static constexpr std::string_view description = "a nominal model of 4 layers with a KV head of 64";

private:
    std::vector<std::byte> file_;  // that the model reads from
    std::unique_ptr<Model> model_;
};

}  // namespace kvplane
