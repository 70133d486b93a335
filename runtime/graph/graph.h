// A model as named ops over values, cut at attention: what stands between two cuts runs on the device in one go, at the
// cuts the KV strategy is asked (abi/include/kvplane/kv.h). It says nothing of memory, devices or batches.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "device/tensor.h"
#include "kvplane/ops.h"
#include "model/model.h"

namespace kvplane {

using ValueId = uint32_t;
using ConstantId = uint32_t;

// An activation: [rows of the step, width].
struct Value {
    std::string name;
    int64_t width;
    Tensor::Element element;
};

using Attributes = std::variant<std::monostate, kvp_norm_attributes, kvp_linear_attributes, kvp_rope_attributes,
                                kvp_attention_input_attributes, kvp_feed_forward_attributes>;

// What the device is given; NULL for an op without attributes.
const void* pointer_to(const Attributes& attributes);

struct Node {
    std::string op;  // an id of ops.h
    Attributes attributes;
    std::vector<ConstantId> constants;
    std::vector<ValueId> operands;
};

struct LayerGraph {
    std::vector<Node> input;    // residual -> normed
    std::vector<Node> project;  // normed -> query, key, value
    std::vector<Node> rotate;   // query, key in place
    // These three and the writing of key and value in one op, where the device has it (fusion.h); else empty.
    std::vector<Node> attention_input;
    std::vector<Node> output;        // attention -> residual
    std::vector<Node> feed_forward;  // residual -> residual
    ConstantId attention_norm;
    ConstantId query_weight;
    ConstantId key_weight;
};

struct Graph {
    std::vector<Value> values;
    std::vector<TensorView> constants;  // weights of the model, and what is derived from it
    std::deque<std::vector<float>> derived;

    std::vector<Node> embed;  // tokens -> residual
    std::vector<LayerGraph> layers;
    std::vector<Node> head;  // head_input -> logits

    ValueId tokens, positions, residual, normed, query, key, value, attention, lse, head_input, logits;
    ConstantId rope_frequencies;

    ValueId add_value(std::string name, int64_t width, Tensor::Element element = Tensor::Element::f32);
    ConstantId add_constant(const TensorView& tensor);
    ConstantId add_derived(std::string_view name, std::vector<float> data);
};

struct GraphOptions {
    bool exact_f32 = false;  // no int8 activations (kvp_linear_attributes)
};

// By the architecture of the model; throws Error(model) for one that has no graph.
Graph build_graph(const Model& model, const GraphOptions& options);

// One function an architecture, listed in graph.cpp.
Graph build_llama_graph(const Model& model, const GraphOptions& options);

}  // namespace kvplane
