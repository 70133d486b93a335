// What attention reads of one sequence and layer.
#pragma once

#include "centroids.h"

namespace kvplane::infinigen {

// With a selection: sinks, the selected rows, the recent rows with the step's own, and the centroids (when not null).
// Without one: every row.
void add_segments(const Context& context, const Turn& turn, const Centroids* centroids);

}  // namespace kvplane::infinigen
