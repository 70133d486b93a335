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
    Program(Device& device, const Graph& graph, int64_t max_rows, int64_t head_rows);

    enum class Stage { input, project, rotate, output, feed_forward };

    void run_embed(int64_t n_rows);
    void run(uint32_t layer, Stage stage, int64_t n_rows);
    void run_head(int64_t n_rows);

    // An activation as [n_rows, width], from `row` on.
    Tensor value(ValueId id, int64_t n_rows, int64_t row = 0) const;
    const Tensor& constant(ConstantId id) const { return weights_[id]; }
    const Weights& weights() const { return weights_; }
    const Graph& graph() const { return graph_; }
    int64_t max_rows() const { return max_rows_; }
    int64_t head_rows() const { return head_rows_; }

private:
    struct Step {
        Plan plan;
        std::vector<ValueId> operands;
    };
    struct Layer {
        std::vector<Step> stages[5];
    };

    std::vector<Step> prepare(const std::vector<Node>& nodes, int64_t max_rows);
    void run(const std::vector<Step>& steps, int64_t n_rows);

    Device& device_;
    const Graph& graph_;
    Weights weights_;
    int64_t max_rows_;
    int64_t head_rows_;
    std::vector<Buffer> activations_;
    std::vector<Step> embed_;
    std::vector<Layer> layers_;
    std::vector<Step> head_;
};

}  // namespace kvplane
