// What `general.architecture` may be, and how a model of it is read. A new architecture is one file and one line in
// architecture.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/gguf.h"
#include "model/model.h"

namespace kvplane {

// Called in this order, so that nothing is sized by a hyper-parameter which no tensor confirms.
struct Architecture {
    std::string_view name;
    // Hyper-parameters, checked against each other; `rope` stays empty.
    ModelShape (*read_shape)(const GgufFile& file);
    // Every tensor that the shape asks for is there and fits it. Returns warnings, as about tensors nobody reads.
    std::vector<std::string> (*check_tensors)(const GgufFile& file, const ModelShape& shape);
    RopeSpec (*read_rope)(const GgufFile& file, const ModelShape& shape);
};

// Throws Error(model) for an architecture that is not known, and lists those that are.
const Architecture& find_architecture(const GgufFile& file);

extern const Architecture llama_architecture;

}  // namespace kvplane
