#include "graph/fusion.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace kvplane {

namespace {

bool are(const std::vector<Node>& nodes, std::initializer_list<std::string_view> ops) {
    return std::equal(nodes.begin(), nodes.end(), ops.begin(), ops.end(),
                      [](const Node& node, std::string_view op) { return node.op == op; });
}

template <class T>
const T& attributes_of(const Node& node) {
    return std::get<T>(node.attributes);
}

bool same_rope(const kvp_rope_attributes& a, const kvp_rope_attributes& b) {
    return a.style == b.style && a.head_size == b.head_size && a.dimensions == b.dimensions &&
           a.magnitude == b.magnitude;
}

// norm, q k v, rope of q, rope of k; the rows are written by the same op.
std::optional<Node> attention_input(const Graph& graph, const LayerGraph& layer) {
    if (!are(layer.input, {"kvp.rms_norm/1"}) || !are(layer.project, {"kvp.linear/1"}) ||
        !are(layer.rotate, {"kvp.rope/1", "kvp.rope/1"})) {
        return {};
    }
    const Node& norm = layer.input[0];
    const Node& project = layer.project[0];
    const Node& turn_query = layer.rotate[0];
    const Node& turn_key = layer.rotate[1];
    const auto& linear = attributes_of<kvp_linear_attributes>(project);
    const auto& rope = attributes_of<kvp_rope_attributes>(turn_query);
    if (linear.accumulate != 0 || project.operands != std::vector{graph.normed, graph.query, graph.key, graph.value} ||
        turn_query.operands[0] != graph.query || turn_key.operands[0] != graph.key ||
        turn_query.constants != turn_key.constants || !same_rope(rope, attributes_of<kvp_rope_attributes>(turn_key))) {
        return {};
    }
    const kvp_attention_input_attributes attributes = {KVP_HEAD(kvp_attention_input_attributes),
                                                       attributes_of<kvp_norm_attributes>(norm).epsilon,
                                                       linear.exact_f32,
                                                       rope.style,
                                                       rope.head_size,
                                                       rope.dimensions,
                                                       rope.magnitude};
    std::vector<ConstantId> constants = norm.constants;
    constants.insert(constants.end(), project.constants.begin(), project.constants.end());
    constants.insert(constants.end(), turn_query.constants.begin(), turn_query.constants.end());
    return Node{"kvp.attention_input/1",
                attributes,
                std::move(constants),
                {graph.residual, graph.positions, graph.query, graph.key, graph.value}};
}

// norm, gate and up, SwiGLU, down, added to where the norm read.
std::optional<Node> feed_forward(const Graph& graph, const LayerGraph& layer) {
    if (!are(layer.feed_forward, {"kvp.rms_norm/1", "kvp.linear/1", "kvp.swiglu/1", "kvp.linear/1"})) return {};
    const Node& norm = layer.feed_forward[0];
    const Node& gate_up = layer.feed_forward[1];
    const Node& gated = layer.feed_forward[2];
    const Node& down = layer.feed_forward[3];
    const auto& linear = attributes_of<kvp_linear_attributes>(gate_up);
    if (gate_up.constants.size() != 2 || linear.accumulate != 0 ||
        attributes_of<kvp_linear_attributes>(down).accumulate == 0 || norm.operands[0] != graph.residual ||
        gated.operands[0] != gate_up.operands[1] || gated.operands[1] != gate_up.operands[2] ||
        down.operands != std::vector{gated.operands[2], graph.residual}) {
        return {};
    }
    const kvp_feed_forward_attributes attributes = {KVP_HEAD(kvp_feed_forward_attributes),
                                                    attributes_of<kvp_norm_attributes>(norm).epsilon, linear.exact_f32};
    return Node{"kvp.feed_forward/1",
                attributes,
                {norm.constants[0], gate_up.constants[0], gate_up.constants[1], down.constants[0]},
                {graph.residual}};
}

}  // namespace

void fuse(Graph& graph, Device& device, const Weights& weights, const FusionOptions& options) {
    const auto supported = [&](const std::optional<Node>& node) {
        return node && device.supports(node->op, pointer_to(node->attributes), weights.of(*node), options.max_rows);
    };
    for (LayerGraph& layer : graph.layers) {
        if (!options.keep_attention_input_apart) {
            if (auto node = attention_input(graph, layer); supported(node)) {
                layer.attention_input = {std::move(*node)};
                layer.input.clear();
                layer.project.clear();
                layer.rotate.clear();
            }
        }
        if (auto node = feed_forward(graph, layer); supported(node)) layer.feed_forward = {std::move(*node)};
    }
}

}  // namespace kvplane
