#include "segments.h"

#include "selection.h"

namespace kvplane::infinigen {

namespace {

void add(const Context& context, const Turn& turn, const kvp_segment& segment) {
    kvp::check(context.core->segment(turn.call(), turn.number(), &segment));
}

void add_range(const Context& context, const Turn& turn, int64_t begin, int64_t end) {
    if (begin >= end) return;
    auto segment = kvp::make<kvp_segment>();
    segment.form = KVP_SEGMENT_RANGE;
    segment.flags = KVP_SEGMENT_CAUSAL;
    segment.begin = begin;
    segment.end = end;
    add(context, turn, segment);
}

}  // namespace

void add_segments(const Context& context, const Turn& turn, const Centroids* centroids) {
    const Selection& selection = turn.layer_state().selection;
    // A selection of another past can only come from a cache that changed under it.
    if (!turn.selects() || !selection.valid || selection.n_past != turn.n_past()) {
        add_range(context, turn, 0, turn.n_total());
        return;
    }
    add_range(context, turn, 0, context.settings.sinks);
    add(context, turn, RowSelection::segment(selection));
    add_range(context, turn, turn.n_past() - context.settings.recent, turn.n_total());
    if (centroids != nullptr) add(context, turn, centroids->segment(turn));
}

}  // namespace kvplane::infinigen
