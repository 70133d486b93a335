#include "graph/program.h"

namespace kvplane {

namespace {

uint64_t element_bytes(Tensor::Element element) {
    return element == Tensor::Element::f32 || element == Tensor::Element::i32 ? 4 : 2;
}

}  // namespace

Program::Program(Device& device, const Graph& graph, const Weights& weights, int64_t max_rows, int64_t head_rows)
    : device_(device), graph_(graph), weights_(weights), max_rows_(max_rows), head_rows_(head_rows) {
    bool is_head_value = false;  // values from head_input on are the head's
    for (ValueId id = 0; id < graph.values.size(); ++id) {
        is_head_value = is_head_value || id == graph.head_input;
        const Value& value = graph.values[id];
        const auto rows = static_cast<uint64_t>(is_head_value ? head_rows : max_rows);
        const uint64_t bytes = rows * static_cast<uint64_t>(value.width) * element_bytes(value.element);
        activations_.emplace_back(device, bytes, "activation " + value.name);
    }
    embed_ = prepare(graph.embed, max_rows);
    for (const LayerGraph& layer : graph.layers) {
        Layer made;
        const std::vector<Node>* stages[] = {&layer.input,           &layer.project, &layer.rotate,
                                             &layer.attention_input, &layer.output,  &layer.feed_forward};
        for (size_t i = 0; i < std::size(stages); ++i) made.stages[i] = prepare(*stages[i], max_rows);
        layers_.push_back(std::move(made));
    }
    head_ = prepare(graph.head, head_rows);
}

std::vector<Program::Step> Program::prepare(const std::vector<Node>& nodes, int64_t max_rows) {
    std::vector<Step> steps;
    for (const Node& node : nodes) {
        Plan plan = device_.prepare(node.op, pointer_to(node.attributes), weights_.of(node), max_rows);
        steps.push_back({std::move(plan), node.operands});
    }
    return steps;
}

Tensor Program::value(ValueId id, int64_t n_rows, int64_t row) const {
    const Value& value = graph_.values[id];
    const kvp_address address = activations_[id].address();
    if (value.element == Tensor::Element::i32) {
        return Tensor::vector(value.element, n_rows, address + static_cast<uint64_t>(row) * 4);
    }
    return Tensor::matrix(value.element, max_rows_, value.width, address).rows(row, n_rows);
}

void Program::run(const std::vector<Step>& steps, int64_t n_rows, const void* arguments) {
    Tensor operands[8];
    const Tensor* pointers[8];
    for (const Step& step : steps) {
        for (size_t i = 0; i < step.operands.size(); ++i) {
            operands[i] = value(step.operands[i], n_rows);
            pointers[i] = &operands[i];
        }
        device_.enqueue(step.plan, {pointers, step.operands.size()}, arguments);
    }
}

void Program::run_embed(int64_t n_rows) {
    run(embed_, n_rows);
}

void Program::run(uint32_t layer, Stage stage, int64_t n_rows, const void* arguments) {
    run(layers_[layer].stages[static_cast<size_t>(stage)], n_rows, arguments);
}

void Program::run_head(int64_t n_rows) {
    run(head_, n_rows);
}

}  // namespace kvplane
