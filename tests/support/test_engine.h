// An engine over a small golden model, opened as the program opens it: pipeline, plugins by id, model file.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/components.h"
#include "engine/engine.h"
#include "support/json_text.h"

namespace kvplane::test {

struct TestEngine {
    TestEngine(const std::string& model_path, std::vector<std::string> overrides, EngineLimits limits = {1, 0},
               const std::string& config = "")
        : pipeline(Pipeline::load({config, std::move(overrides), {}})), plugins(open_components(pipeline)) {
        start_components(plugins, pipeline);
        model = Model::open(model_path);
        engine = std::make_unique<Engine>(pipeline, *model, plugins, limits);
    }

    // Logits of the positions from `first` on, of a text whose first prompt_tokens are a prompt.
    std::map<int64_t, std::vector<float>> logits(const std::vector<int32_t>& ids, int64_t prompt_tokens,
                                                 int64_t first) {
        std::map<int64_t, std::vector<float>> found;
        engine->evaluate(ids, prompt_tokens, first, [&](int64_t position, std::span<float> row) {
            found[position] = std::vector<float>(row.begin(), row.end());
        });
        return found;
    }

    Pipeline pipeline;
    Components plugins;
    std::unique_ptr<Model> model;
    std::unique_ptr<Engine> engine;
};

// f32 arithmetic throughout, for comparisons with references.
inline std::vector<std::string> exact(std::vector<std::string> more = {}) {
    more.push_back("device.exact_f32=true");
    more.push_back("kv.codec=f32");
    more.push_back("device.threads=2");
    return more;
}

// The smallest memory in which things still work, so that spilling, eviction and fetching happen all the time: pages of
// 4 tokens, 2 staging pages, and `device_pages` pages in all.
inline std::vector<std::string> tiny_limits(const std::string& model_path, uint32_t device_pages,
                                            std::vector<std::string> more = {}, uint32_t page_tokens = 4,
                                            uint32_t row_type = KVP_TYPE_F32) {
    const ModelShape shape = Model::open(model_path)->shape();
    const uint64_t page_bytes = shape.kv_heads * page_tokens * kvp_row_bytes(row_type, shape.head_size);
    more.push_back("memory.page_tokens=" + std::to_string(page_tokens));
    more.push_back("memory.staging_pages=2");
    more.push_back("tiers.host.access=copy");
    more.push_back("tiers.device.kv_bytes=" + std::to_string(device_pages * page_bytes));
    return more;
}

// The same with int8 rows.
// What int8 rows may change the logits of a tiny model by. Another order of sums makes a value round to its neighbour now and
// then, so this holds between two runs whose rows lie elsewhere as it does against f32 rows.
constexpr double kInt8RowsError = 0.25;

inline std::vector<std::string> with_int8_rows(std::vector<std::string> settings) {
    settings.push_back("kv.codec=i8");
    return settings;
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    double most = a.size() == b.size() ? 0 : 1e30;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
    return most;
}

inline double largest_difference(const std::map<int64_t, std::vector<float>>& a,
                                 const std::map<int64_t, std::vector<float>>& b) {
    double most = a.size() == b.size() ? 0 : 1e30;
    for (const auto& [position, row] : a) {
        const auto other = b.find(position);
        most = std::max(most, other == b.end() ? 1e30 : largest_difference(row, other->second));
    }
    return most;
}

// A golden case: NAME.json with "ids", "rows", and NAME.f32 with the logits of those rows, by tests/reference.
struct GoldenLogits {
    GoldenLogits(const std::string& folder, const std::string& name) {
        json = read_json(folder + "/" + name + ".json");
        ids = json.at("ids").get<std::vector<int32_t>>();
        std::ifstream values(folder + "/" + name + ".f32", std::ios::binary);
        const auto vocabulary = json.at("vocabulary").get<size_t>();
        for (int64_t position : json.at("rows").get<std::vector<int64_t>>()) {
            std::vector<float> row(vocabulary);
            values.read(reinterpret_cast<char*>(row.data()), static_cast<std::streamsize>(vocabulary * sizeof(float)));
            if (!values) throw std::runtime_error(name + ".f32 is too short");
            rows[position] = std::move(row);
        }
    }

    nlohmann::json json;
    std::vector<int32_t> ids;
    std::map<int64_t, std::vector<float>> rows;
};

}  // namespace kvplane::test
