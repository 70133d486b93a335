// From a query to rows: in a long text first the pages that look promising, scores of their rows by partial keys, a count
// by threshold, floor and cap, and the best rows of each KV head, one by one or by groups. The rows that are attended
// anyway (sinks, recent) count, but are not chosen.
#pragma once

#include "context.h"

namespace kvplane::infinigen {

class RowSelection {
public:
    explicit RowSelection(const Context& context);

    // Selects rows of turn's layer by the query in row `row` of `query` f32[n, H*d]. Needs turn.selects().
    void select(const Turn& turn, const kvp_tensor* query, int64_t row) const;
    // Starts to bring what was selected; the ticket stays with the selection.
    void fetch(const Turn& turn) const;

    // The rows that were selected, as attention reads them.
    static kvp_segment segment(const Selection& selection);

private:
    const Context& context_;
    // Pages that rows are looked for in: how many, their list and its counts; 0: all.
    struct Pages {
        int64_t n = 0;
        kvp_address list = 0;
        kvp_address counts = 0;
    };
    Pages choose_pages(const Turn& turn, const kvp_tensor* query, int64_t row) const;

    // Takes the rows that published_eviction.h masks out of the race.
    void mask(const Turn& turn) const;

    kvp_address masked_score_ = 0;  // f32; 0: no row is ever masked
    DeviceOp select_pages_;         // nothing where all pages are searched
    DeviceOp partial_scores_;
    DeviceOp select_rows_;
};

}  // namespace kvplane::infinigen
