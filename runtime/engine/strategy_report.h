// What a KV strategy asks for in each layer, before anything runs: which op gives it its evidence, what that costs, and how
// many bytes a token takes in which tier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvplane {

class Engine;

struct StrategyReport {
    struct Evidence {
        uint32_t first_layer;
        uint32_t end_layer;
        std::string what;
        std::string op;  // that supplies it
        std::string cost;
    };
    struct Bytes {
        std::string what;
        std::string tier;
        double per_token;  // in all layers
    };
    std::string summary;
    uint32_t dense_layers;  // the first, which read every row; of all layers: none selects
    std::vector<Evidence> evidence;
    std::vector<Bytes> bytes;
};

StrategyReport report_strategy(const Engine& engine);

}  // namespace kvplane
