#include "speculation.h"

namespace kvplane::infinigen {

Speculation::Speculation(const Context& context) : context_(context), layers_(context.model.n_layers) {
    const kvp_kv_model& model = context.model;
    if (context.settings.source == Source::own_query || model.rope_style == 0) return;
    auto attributes = kvp::make<kvp_rope_attributes>();
    attributes.style = model.rope_style;
    attributes.head_size = model.head_size;
    attributes.dimensions = model.rope_dimensions;
    attributes.magnitude = model.rope_magnitude;
    rope_ = DeviceOp(*context.core, "kvp.rope/1", &attributes, {model.rope_frequencies});
}

void Speculation::set_weights(uint32_t layer, const kvp_kv_weights& weights) {
    const Source source = context_.settings.source;
    if (source == Source::own_query || layer < context_.first_layer || layer >= layers_.size()) return;
    Layer& mine = layers_[layer];
    if (source != Source::attn_input) {
        auto norm = kvp::make<kvp_norm_attributes>();
        norm.epsilon = context_.model.norm_epsilon;
        mine.norm = DeviceOp(*context_.core, "kvp.rms_norm/1", &norm, {weights.attention_norm});
    }
    auto linear = kvp::make<kvp_linear_attributes>();
    linear.accumulate = weights.query_bias != nullptr;
    mine.linear = DeviceOp(*context_.core, "kvp.linear/1", &linear, {weights.query});
    if (weights.query_bias == nullptr) return;
    const DLTensor& bias = *weights.query_bias->view;
    mine.bias_table.emplace(kvp::address(*weights.query_bias), bias.dtype,
                            std::initializer_list<int64_t>{1, bias.shape[0]}, bias.device);
    mine.bias = DeviceOp(*context_.core, "kvp.embed/1", nullptr, {*mine.bias_table});
    if (zero_ == 0) {
        const int32_t zero = 0;
        kvp::check(context_.core->constant(context_.core->object, &zero, sizeof zero, &zero_));
    }
}

void Speculation::run(const Sidecars& sidecars, const RowSelection& selection, kvp_kv_call* call,
                      const kvp_kv_step& step, uint32_t layer, const kvp_tensor& input) {
    const auto turn_of = [&](uint32_t sequence) { return Turn(context_, sidecars, call, step, sequence, layer); };
    for (uint32_t first = 0; first < step.n_sequences;) {
        if (!turn_of(first).selects()) {
            first++;
            continue;
        }
        // Sequences whose rows are neighbours go through the weight together. Each has one row.
        const int64_t row_begin = step.sequences[first]->row_begin;
        uint32_t end = first + 1;
        while (end < step.n_sequences && turn_of(end).selects() &&
               step.sequences[end]->row_begin == row_begin + (end - first)) {
            end++;
        }
        const kvp::Tensor query = guess(turn_of(first), layers_[layer], input, row_begin, end - first);
        for (uint32_t sequence = first; sequence < end; sequence++) {
            selection.select(turn_of(sequence), query, sequence - first);
            selection.fetch(turn_of(sequence));
        }
        first = end;
    }
}

kvp::Tensor Speculation::guess(const Turn& first, const Layer& layer, const kvp_tensor& input, int64_t row_begin,
                               int64_t n_rows) {
    const kvp_kv_model& model = context_.model;
    const int64_t width = model.width;
    const int64_t query_width = int64_t{model.n_heads} * model.head_size;
    const auto most_rows = uint64_t{first.step().n_sequences};  // that a step guesses for
    const DLDevice device = input.view->device;
    kvp::Tensor x = kvp::Tensor::rows(input, row_begin, n_rows);
    if (layer.norm) {
        if (normed_ == 0) normed_ = first.scratch(most_rows * static_cast<uint64_t>(width) * sizeof(float));
        const auto normed = kvp::Tensor::f32(normed_, {n_rows, width}, device);
        layer.norm.enqueue(first.call(), {x, normed});
        x = normed;
    }
    if (query_ == 0) query_ = first.scratch(most_rows * static_cast<uint64_t>(query_width) * sizeof(float));
    const auto query = kvp::Tensor::f32(query_, {n_rows, query_width}, device);
    if (layer.bias) {
        const auto zero = kvp::Tensor::i32(zero_, {1}, device);
        for (int64_t row = 0; row < n_rows; row++) {
            layer.bias.enqueue(first.call(), {zero, kvp::Tensor::rows(*query.get(), row, 1)});
        }
    }
    layer.linear.enqueue(first.call(), {x, query});
    if (rope_) {
        rope_.enqueue(first.call(), {query, kvp::Tensor::rows(*first.evidence().positions, row_begin, n_rows)});
    }
    return query;
}

}  // namespace kvplane::infinigen
