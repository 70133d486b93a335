// Page means: what stands in the softmax for the rows of a page that are not read, as one virtual row with bias
// log(number of those rows).
#pragma once

#include "context.h"

namespace kvplane::infinigen {

class Centroids {
public:
    explicit Centroids(const Context& context);

    // Brings the means up to date with the rows that the step has written.
    void append(const Turn& turn) const;
    // Makes the means of `pages` (ascending, distinct) anew, of a cache of n_rows rows.
    void refresh(const Turn& turn, const std::vector<int64_t>& pages, int64_t n_rows) const;
    // The virtual rows, biased by what the selection leaves out.
    kvp_segment segment(const Turn& turn) const;

private:
    void update(const Turn& turn, const kvp_rows& rows, int64_t begin, int64_t end) const;

    const Context& context_;
    DeviceOp page_means_;
    DeviceOp page_bias_;
};

}  // namespace kvplane::infinigen
