// One hook's view of one sequence and layer: its part of the step, and the core's calls for it. They throw kvp::Passed.
#pragma once

#include <cstdint>

#include "kvplane/kv.h"
#include "kvplane/sdk/host.hpp"
#include "kvplane/sdk/tensor.hpp"

namespace kvplane::kv {

class Turn {
public:
    Turn(const kvp_kv_core& core, const kvp::Host& host, kvp_kv_call* call, const kvp_kv_step& step, uint32_t sequence,
         uint32_t layer)
        : core_(core), host_(host), call_(call), step_(step), number_(sequence), layer_(layer) {}

    kvp_kv_call* call() const { return call_; }
    const kvp_kv_step& step() const { return step_; }
    const kvp_kv_evidence& evidence() const { return *step_.evidence; }
    const kvp_kv_sequence& sequence() const { return *step_.sequences[number_]; }
    uint32_t number() const { return number_; }
    uint32_t layer() const { return layer_; }
    // Cached rows of the layer before the step, and with the step's own.
    int64_t n_past() const { return sequence().n_cached; }
    int64_t n_total() const { return sequence().n_cached + sequence().n_rows; }
    // Tokens that the sequence has seen before the step, those that have left the cache too.
    int64_t n_seen() const { return sequence().position; }
    bool decodes() const { return sequence().phase == KVP_PHASE_DECODE; }

    kvp_address scratch(uint64_t n_bytes) const;
    // The address of the sidecar of that number; capacity in rows or pages.
    kvp_address sidecar(uint32_t index, uint64_t* capacity = nullptr) const;
    kvp_rows rows() const;

    void copy(const kvp_copy_region* regions, uint32_t n_regions) const;

    // Of each KV head the rows of an index i32[G][stride], ascending, and all from tail_begin on stay in this layer.
    void keep_rows(kvp_address index, uint64_t stride, uint32_t n_chosen, int64_t tail_begin) const;

    // In attn_plan: what attention reads. A range that is empty adds nothing.
    void add(const kvp_segment& segment) const;
    void add_range(int64_t begin, int64_t end) const;

    // body(rows, begin, end) for each piece of cached rows [begin, end), in order, with rows that the device can read.
    template <typename Body>
    void visit(int64_t begin, int64_t end, const Body& body) const {
        struct Visit {
            const Body& body;
            const kvp::Host& host;
        } visit{body, host_};
        kvp::check(core_.visit(
            call_, number_, layer_, begin, end,
            [](void* context, const kvp_rows* rows, int64_t piece_begin, int64_t piece_end) {
                const auto& self = *static_cast<const Visit*>(context);
                return self.host.guard([&] { self.body(*rows, piece_begin, piece_end); });
            },
            &visit));
    }

protected:
    const kvp_kv_core& core() const { return core_; }

private:
    const kvp_kv_core& core_;
    const kvp::Host& host_;
    kvp_kv_call* call_;
    const kvp_kv_step& step_;
    uint32_t number_;
    uint32_t layer_;
};

}  // namespace kvplane::kv
