// What every part of the strategy works with: the core, the model, the settings, and one hook's view of a sequence.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "common/device_op.h"
#include "common/turn.h"
#include "pool.h"
#include "published_eviction.h"
#include "sidecars.h"

namespace kvplane::infinigen {

using kv::DeviceOp;

// A choice of rows for one layer of one sequence; device memory of this step.
struct Selection {
    bool valid = false;
    kvp_address index = 0;   // i32[G][max_count]
    kvp_address counts = 0;  // i32[G]
    uint32_t max_count = 0;
    int64_t n_past = 0;   // rows that it was made for
    uint64_t ticket = 0;  // of the fetch; 0: none
};

struct LayerState {
    bool indexed = false;     // the partial index and the partial keys are there
    bool stale_page = false;  // the page that holds row n_cached has a mean of rows that are gone
    int64_t statistic_rows = 0;
    int64_t prompt_end = 0;  // rows of the cache before it are in the statistics
    Selection selection;
    std::optional<Pool> pool;                    // where the cache has a limit
    std::optional<PublishedEviction> published;  // where the artifact's is asked for instead
};

struct StateData {
    std::vector<LayerState> layers;
    kvp_address scores = 0;  // f32[G][n_cached], of this step, used by layer after layer
    kvp_address pages = 0;   // i32[G][pages searched] and their counts i32[G], the same
    kvp_address bias = 0;    // f32[G][capacity of means], the same
};

struct Context {
    const kvp_kv_core* core;
    kvp_kv_model model;
    Settings settings;
    uint32_t first_layer;  // the first that selects
    kvp::Host host;
    std::vector<kvp_address> skew;  // f32[G][d][d] a layer; 0: identity
};

}  // namespace kvplane::infinigen

// The core's handle of a sequence is the strategy's own type, of global scope as the ABI names it.
struct kvp_kv_state : kvplane::infinigen::StateData {};

namespace kvplane::infinigen {

// One hook's view of one sequence, with what infinigen keeps of it.
class Turn : public kv::Turn {
public:
    Turn(const Context& context, const Sidecars& sidecars, kvp_kv_call* call, const kvp_kv_step& step,
         uint32_t sequence, uint32_t layer)
        : kv::Turn(*context.core, context.host, call, step, sequence, layer), context_(context), sidecars_(sidecars) {}

    StateData& state() const { return *sequence().state; }
    LayerState& layer_state() const { return state().layers[layer()]; }

    // Whether this layer selects rows of this sequence now: one new token, an index, and enough of a past that the
    // forced rows and the floor leave something out.
    bool selects() const;

    // The address of a sidecar; capacity in rows or pages. 0: there is none.
    kvp_address sidecar(Sidecars::Id id, uint64_t* capacity = nullptr) const;
    // The partial keys, and for how many rows there is room.
    kvp_address keys(uint64_t* capacity) const;

    // Visits all rows of `pages` (ascending, distinct), of a cache of n_rows rows.
    template <typename Body>
    void visit_pages(const std::vector<int64_t>& pages, int64_t n_rows, const Body& body) const {
        const int64_t page_tokens = context_.model.page_tokens;
        for (size_t i = 0; i < pages.size();) {
            size_t next = i + 1;
            while (next < pages.size() && pages[next] == pages[next - 1] + 1) next++;
            visit(pages[i] * page_tokens, std::min((pages[next - 1] + 1) * page_tokens, n_rows), body);
            i = next;
        }
    }

private:
    const Context& context_;
    const Sidecars& sidecars_;
};

}  // namespace kvplane::infinigen
