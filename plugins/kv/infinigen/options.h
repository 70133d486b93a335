// What [kv.infinigen] may say, and what a preset says for it.
#pragma once

#include <string>

#include "kvplane/kv.h"
#include "kvplane/ops.h"
#include "kvplane/sdk/host.hpp"
#include "kvplane/sdk/option.hpp"

namespace kvplane::infinigen {

// What the query of layer l is guessed from, one layer ahead (own_query: not guessed, taken when it is there).
enum class Source {
    automatic,     // own_query where every tier is read in place, else residual_mid
    attn_input,    // the normed attention input of l - 1 (the paper's)
    residual,      // the residual stream before the attention of l - 1, normed with l's weight
    residual_mid,  // the residual stream after the attention of l - 1, normed with l's weight
    own_query,
};

enum class Skew { automatic, on, off };
enum class PoolPolicy { fifo, lru, counter };

struct PoolSettings {
    uint64_t tokens = 0;  // most rows of a sequence; 0: no limit, no pool
    PoolPolicy policy = PoolPolicy::counter;
    uint32_t counter_bits = 8;
    bool protect_sinks = true;
    bool masks = false;  // compat = "artifact": as published_eviction.h says; no row leaves

    // Most rows that a sequence's cache keeps; 0: no limit.
    uint64_t limit() const { return masks ? 0 : tokens; }
};

// The member values are the default preset (infinigen-measured: best quality at a twentieth of the rows).
struct Settings {
    Source source = Source::automatic;
    uint32_t columns = KVP_COLUMNS_ENERGY;
    double ratio = 0.75;  // of the head's columns that a partial key keeps; README.md has why not 0.5
    Skew skew = Skew::automatic;
    uint32_t key_type = KVP_TYPE_I8;
    double alpha = 4;  // rows within alpha of the best score count; may be infinite
    int64_t min_tokens = 64;
    double min_share = 0.03;
    double cap = 0.2;
    int64_t max_tokens = 1024;  // seldom reached at 8,192 tokens (docs/measurements.md); 0: no limit
    double fixed_share = -1;    // negative: by threshold
    int64_t fixed_tokens = -1;
    double share = 0;  // of the past that is read in all, sinks and recent rows counted; 0: not said
    bool whole_groups = false;
    int64_t unit_tokens = 1;  // that are chosen together: the model's group_tokens with whole_groups
    int64_t look_ahead = 1;   // layers between a guess and its use
    int64_t sinks = 4;
    int64_t recent = 32;
    int64_t dense_layers = 2;
    uint32_t group_score = KVP_GROUP_BEST;
    uint32_t counts = 0;  // 0: the mean; KVP_SELECT_PER_HEAD, KVP_SELECT_SHARED
    bool strict = true;
    bool centroids = true;
    double page_share = 0.125;  // of the pages that rows are looked for in, but at least min_pages of them
    int64_t min_pages = 64;     // half of 8,192 tokens in pages of 64: below, a choice of pages costs too much
    PoolSettings pool;

    // Rows chosen out of n_past by a number that share or fixed_tokens says; -1: by the rules below.
    int64_t said_count(int64_t n_past) const;
    // The floor under the number of rows chosen out of n_past.
    int64_t floor_count(int64_t n_past) const;
    // Room for the rows chosen out of n_past: the cap and max_tokens, never less than one row or group.
    int64_t cap_count(int64_t n_past) const;
    // Pages that rows are looked for in, out of n_pages; n_pages: no choice is made.
    int64_t searched_pages(int64_t n_pages) const;
    // Columns of a partial key that the index fills, and that it has room for.
    uint32_t chosen_columns(uint32_t head_size) const;
    uint32_t stored_columns(uint32_t head_size) const;
    // Whether a choice of pages can happen at all.
    bool chooses_pages() const { return centroids && page_share < 1; }
};

// Throws kvp::Failure(KVP_ERROR_INVALID) on values that do not go together, or not with groups of that many tokens.
Settings read_settings(const kvp::Host& host, uint32_t group_tokens);

// One line: what really runs.
std::string summary(const Settings& settings, uint32_t head_size, bool skewed);

extern const std::array<const kvp_option*, 30>& option_pointers;

}  // namespace kvplane::infinigen
