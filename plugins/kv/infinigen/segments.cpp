#include "segments.h"

#include "selection.h"

namespace kvplane::infinigen {

void add_segments(const Context& context, const Turn& turn, const Centroids* centroids) {
    const Selection& selection = turn.layer_state().selection;
    // A selection of another past can only come from a cache that changed under it.
    if (!turn.selects() || !selection.valid || selection.n_past != turn.n_past()) {
        turn.add_range(0, turn.n_total());
        return;
    }
    turn.add_range(0, context.settings.sinks);
    turn.add(RowSelection::segment(selection));
    turn.add_range(turn.n_past() - context.settings.recent, turn.n_total());
    if (centroids != nullptr) turn.add(centroids->segment(turn));
}

}  // namespace kvplane::infinigen
