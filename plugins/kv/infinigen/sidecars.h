// What infinigen keeps beside the KV, in memory that the core allocates and moves with the rows.
//
//   statistics  f64[G][5][d]       column sums over the prompt's q and k
//   projection  f32[G][d][c]       the columns chosen of the skew matrix (or of the identity)
//   index       i32[G][c]          which columns those are
//   mean        f32[G][c]          the prompt's mean of the projected keys
//   keys        [G][rows/16][c][16] partial keys in the type that was asked for, tiles of 16 rows (ops.h)
//   scales      f32[G][rows]       for I8, f32[G][c] for I4
//   means       [G][pages][2d]     page centroids K||V, f16, or f32 where cached rows are f32
//   spreads     [G][pages][d]      the standard deviation of their K, likewise
//
// Rows of keys and scales are counted in pages: a row cannot be moved alone out of a tile, so when rows are replaced the
// keys of the pages concerned are made anew.
#pragma once

#include <vector>

#include "options.h"

namespace kvplane::infinigen {

// Of means and spreads: f32 rows are there to be exact, and so are then their means.
inline uint32_t mean_type(const kvp_kv_model& model) {
    return model.kv_type == KVP_TYPE_F32 ? KVP_TYPE_F32 : KVP_TYPE_F16;
}

class Sidecars {
public:
    enum Id : uint32_t { statistics, projection, index, mean, keys, scales, means, spreads, n_ids };

    // For layers from `first_layer` on.
    Sidecars(const Settings& settings, const kvp_kv_model& model, uint32_t first_layer);
    Sidecars(const Sidecars&) = delete;
    Sidecars& operator=(const Sidecars&) = delete;

    // Rows that a page has room for in keys and scales.
    uint64_t page_rows() const { return page_rows_; }
    bool has(Id id) const { return number_[id] >= 0; }
    // As the core counts them.
    uint32_t number(Id id) const { return static_cast<uint32_t>(number_[id]); }

    const kvp_sidecar* const* list() const { return pointers_.data(); }
    uint32_t size() const { return static_cast<uint32_t>(pointers_.size()); }

    static constexpr uint32_t tile_rows = 16;

private:
    void add(Id id, std::string_view name, uint32_t scope, uint64_t n_bytes, uint32_t first_layer);

    uint32_t page_rows_;
    std::vector<kvp_sidecar> sidecars_;
    std::vector<const kvp_sidecar*> pointers_;
    int32_t number_[n_ids];
};

}  // namespace kvplane::infinigen
