// A graph made ready for one device: every op prepared once, every activation allocated once for the largest step.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#include "graph/graph.h"
#include "graph/weights.h"

namespace kvplane {

class Program {
public:
    // max_rows: rows of the largest step; head_rows: rows whose logits are made at a time.
    Program(Device& device, const Graph& graph, const Weights& weights, int64_t max_rows, int64_t head_rows);

    enum class Stage { input, project, rotate, attention_input, output, feed_forward };
    static constexpr size_t n_stages = 6;

    void run_embed(int64_t n_rows);
    // `arguments`: of attention_input, which writes to the cache.
    void run(uint32_t layer, Stage stage, int64_t n_rows, const void* arguments = nullptr);
    bool has(uint32_t layer, Stage stage) const { return !layers_[layer].stages[static_cast<size_t>(stage)].empty(); }
    void run_head(int64_t n_rows);

    // An activation as [n_rows, width], from `row` on.
    Tensor value(ValueId id, int64_t n_rows, int64_t row = 0) const;
    const Graph& graph() const { return graph_; }
    int64_t max_rows() const { return max_rows_; }
    int64_t head_rows() const { return head_rows_; }

private:
    struct Step {
        Plan plan;
        std::vector<ValueId> operands;
    };
    struct Layer {
        std::vector<Step> stages[n_stages];
    };

    std::vector<Step> prepare(const std::vector<Node>& nodes, int64_t max_rows);
    void run(const std::vector<Step>& steps, int64_t n_rows, const void* arguments = nullptr);

    Device& device_;
    const Graph& graph_;
    const Weights& weights_;
    int64_t max_rows_;
    int64_t head_rows_;
    std::vector<Buffer> activations_;
    std::vector<Step> embed_;
    std::vector<Layer> layers_;
    std::vector<Step> head_;
};

}  // namespace kvplane
