// Llama and everything shaped like it (Llama 2/3, SmolLM2, Mistral): RMS norm, rotary positions, grouped queries,
// SwiGLU.
#include "base/error.h"
#include "graph/graph.h"

namespace kvplane {

namespace {

// Files of this architecture may add biases; a graph that left them out would compute something else.
void refuse_biases(const Model& model) {
    for (const TensorView& tensor : model.tensors()) {
        if (tensor.name.starts_with("blk.") && tensor.name.ends_with(".bias")) {
            throw Error(ErrorKind::model, model.file().path() + ": tensor " + std::string(tensor.name) +
                                              ": a Llama with biases is not supported yet; use a file without");
        }
    }
}

}  // namespace

Graph build_llama_graph(const Model& model, const GraphOptions& options) {
    refuse_biases(model);
    const ModelShape& shape = model.shape();
    const int64_t query_width = int64_t{shape.heads} * shape.head_size;
    const int64_t key_width = int64_t{shape.kv_heads} * shape.head_size;

    Graph graph;
    graph.tokens = graph.add_value("tokens", 1, Tensor::Element::i32);
    graph.positions = graph.add_value("positions", 1, Tensor::Element::i32);
    graph.residual = graph.add_value("residual", shape.width);
    graph.normed = graph.add_value("normed", shape.width);
    graph.query = graph.add_value("query", query_width);
    graph.key = graph.add_value("key", key_width);
    graph.value = graph.add_value("value", key_width);
    graph.attention = graph.add_value("attention", query_width);
    graph.lse = graph.add_value("lse", shape.heads);
    const ValueId gate = graph.add_value("gate", shape.feed_forward_width);
    const ValueId up = graph.add_value("up", shape.feed_forward_width);
    graph.head_input = graph.add_value("head_input", shape.width);
    const ValueId head_normed = graph.add_value("head_normed", shape.width);
    graph.logits = graph.add_value("logits", shape.vocabulary);

    kvp_norm_attributes norm = {KVP_HEAD(kvp_norm_attributes), shape.norm_epsilon, 0};
    kvp_linear_attributes linear = {KVP_HEAD(kvp_linear_attributes), 0, options.exact_f32 ? 1u : 0u};
    kvp_linear_attributes add = linear;
    add.accumulate = 1;
    kvp_rope_attributes rope = {KVP_HEAD(kvp_rope_attributes),
                                shape.rope.interleaved ? uint32_t{KVP_ROPE_INTERLEAVED} : uint32_t{KVP_ROPE_HALVES},
                                shape.head_size, shape.rope.dimensions, shape.rope.magnitude};

    const ConstantId embedding = graph.add_constant(model.tensor("token_embd.weight"));
    graph.rope_frequencies = graph.add_derived("rope frequencies", shape.rope.inverse_frequencies);
    graph.embed = {{"kvp.embed/1", {}, {embedding}, {graph.tokens, graph.residual}}};

    for (uint32_t i = 0; i < shape.layers; ++i) {
        const std::string prefix = "blk." + std::to_string(i) + ".";
        auto weight = [&](const char* name) { return graph.add_constant(model.tensor(prefix + name + ".weight")); };
        LayerGraph layer;
        layer.attention_norm = weight("attn_norm");
        layer.query_weight = weight("attn_q");
        layer.key_weight = weight("attn_k");
        layer.input = {{"kvp.rms_norm/1", norm, {layer.attention_norm}, {graph.residual, graph.normed}}};
        layer.project = {{"kvp.linear/1",
                          linear,
                          {layer.query_weight, layer.key_weight, weight("attn_v")},
                          {graph.normed, graph.query, graph.key, graph.value}}};
        layer.rotate = {{"kvp.rope/1", rope, {graph.rope_frequencies}, {graph.query, graph.positions}},
                        {"kvp.rope/1", rope, {graph.rope_frequencies}, {graph.key, graph.positions}}};
        layer.output = {{"kvp.linear/1", add, {weight("attn_output")}, {graph.attention, graph.residual}}};
        layer.feed_forward = {
            {"kvp.rms_norm/1", norm, {weight("ffn_norm")}, {graph.residual, graph.normed}},
            {"kvp.linear/1", linear, {weight("ffn_gate"), weight("ffn_up")}, {graph.normed, gate, up}},
            {"kvp.swiglu/1", {}, {}, {gate, up, gate}},
            {"kvp.linear/1", add, {weight("ffn_down")}, {gate, graph.residual}}};
        graph.layers.push_back(std::move(layer));
    }

    const TensorView* output = model.find_tensor("output.weight");
    graph.head = {{"kvp.rms_norm/1",
                   norm,
                   {graph.add_constant(model.tensor("output_norm.weight"))},
                   {graph.head_input, head_normed}},
                  {"kvp.linear/1",
                   linear,
                   {output != nullptr ? graph.add_constant(*output) : embedding},
                   {head_normed, graph.logits}}};
    return graph;
}

}  // namespace kvplane
