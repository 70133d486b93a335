// Quest's evidence: the greatest and the least value of every channel of a page's keys. No key of the page can score higher
// with a query than the better of both does, channel by channel.
#pragma once

#include "common/device_op.h"
#include "common/turn.h"
#include "settings.h"

namespace kvplane::quest {

class PageBounds {
public:
    PageBounds(const kvp_kv_core& core, const kvp_kv_model& model, const Settings& settings);

    const kvp_sidecar& sidecar() const { return sidecar_; }

    // Takes in the rows that the step has written. `anew`: a rewind left bounds of rows that are gone in their page.
    void append(const kv::Turn& turn, bool anew) const;
    // Scores of the first n_pages pages for the step's query of this sequence, f32[G][n_pages] in scratch.
    kvp_address scores(const kv::Turn& turn, int64_t n_pages) const;

private:
    kvp_address bounds(const kv::Turn& turn, uint64_t* n_pages) const;

    const kvp_kv_model& model_;
    const Settings& settings_;
    kv::DeviceOp page_bounds_;
    kv::DeviceOp page_bound_scores_;
    kvp_sidecar sidecar_;
};

}  // namespace kvplane::quest
