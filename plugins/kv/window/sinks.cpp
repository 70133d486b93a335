#include "sinks.h"

namespace kvplane::window {

TurnedSinks::TurnedSinks(const kvp_kv_core& core, const kvp_kv_model& model, int64_t n_sinks)
    : n_sinks_(n_sinks), n_kv_heads_(model.n_kv_heads), row_bytes_(2 * model.head_size * sizeof(float)) {
    auto attributes = kvp::make<kvp_rope_attributes>();
    attributes.style = model.rope_style;
    attributes.head_size = model.head_size;
    attributes.dimensions = model.rope_dimensions;
    attributes.magnitude = model.rope_magnitude;
    turned_rows_ = kv::DeviceOp(core, "kvp.turned_rows/1", &attributes, {model.rope_frequencies});
}

kvp_segment TurnedSinks::segment(const kv::Turn& turn, int64_t shift) const {
    auto segment = kvp::make<kvp_segment>();
    segment.form = KVP_SEGMENT_VIRTUAL;
    segment.virtual_rows = turn.scratch(scratch_bytes());
    segment.virtual_stride = static_cast<uint64_t>(n_sinks_);
    segment.virtual_count = static_cast<uint32_t>(n_sinks_);
    segment.virtual_type = KVP_TYPE_F32;
    auto arguments = kvp::make<kvp_turned_rows_arguments>();
    arguments.stride = segment.virtual_stride;
    arguments.shift = shift;
    turn.visit(0, n_sinks_, [&](const kvp_rows& rows, int64_t begin, int64_t end) {
        arguments.rows = &rows;
        arguments.virtual_rows = segment.virtual_rows + static_cast<uint64_t>(begin) * row_bytes_;
        arguments.token_begin = begin;
        arguments.token_end = end;
        turned_rows_.enqueue(turn.call(), {}, &arguments);
    });
    return segment;
}

}  // namespace kvplane::window
