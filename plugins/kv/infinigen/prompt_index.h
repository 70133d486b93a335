// From the prompt to partial keys: column sums over q and k, the columns that they single out, and of every cached key
// those columns alone.
#pragma once

#include "context.h"

namespace kvplane::infinigen {

class PromptIndex {
public:
    explicit PromptIndex(const Context& context);

    // Adds the q and k of a prompt's chunk to the column sums.
    void accumulate(const Turn& turn) const;
    // Picks columns and makes the partial keys of every cached row.
    void build(const Turn& turn) const;
    // Makes those of the step's own rows.
    void append(const Turn& turn) const;
    // Makes those of `pages` (ascending, distinct) anew, of a cache of n_rows rows.
    void refresh(const Turn& turn, const std::vector<int64_t>& pages, int64_t n_rows) const;

private:
    kvp_partial_keys_arguments keys_arguments(const Turn& turn) const;
    void store(const Turn& turn, kvp_partial_keys_arguments arguments, const kvp_rows& rows, int64_t begin,
               int64_t end) const;

    const Context& context_;
    DeviceOp column_statistics_;
    DeviceOp partial_index_;
    DeviceOp partial_keys_;
};

}  // namespace kvplane::infinigen
