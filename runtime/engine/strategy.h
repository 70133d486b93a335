// The KV strategy that the pipeline chose: its hooks, called in the order of kvplane/kv.h, and what the core does for
// it (kvp_kv_core). Errors of the plugin become Error(plugin) here.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/weights.h"
#include "kvplane/kv.h"
#include "memory/kv_store.h"
#include "memory/scratch.h"
#include "model/model.h"

namespace kvplane {

// One sequence's part of a step, as the strategy and the cache see it.
struct CachedPart {
    SequenceCache* cache = nullptr;
    kvp_kv_sequence abi{};
    std::vector<kvp_segment> segments;  // of the layer at hand
};

class Strategy {
public:
    struct Setting {
        uint64_t fingerprint = 0;  // of the model
        uint32_t context = 0;
        bool in_place = true;
        PageLayout layout;
    };

    Strategy(const kvp_kv* table, Explain explain, Device& device, const Model& model, const Graph& graph,
             const Weights& weights, const Setting& setting);
    ~Strategy();
    Strategy(const Strategy&) = delete;
    Strategy& operator=(const Strategy&) = delete;

    // After create: what it wants, and the room that it works in.
    std::vector<SidecarSpec> sidecars() const;
    uint64_t evidence() const { return needs_->evidence; }
    // Ops of the device that it has prepared, each once.
    const std::vector<std::string>& ops() const { return ops_; }
    uint32_t dense_layers() const { return needs_->dense_layers; }
    std::string summary() const { return std::string(needs_->summary.data, needs_->summary.n_bytes); }
    void attach(KvStore& store, Scratch& scratch);

    kvp_kv_state* open_sequence(uint64_t id, int64_t prompt_tokens, int64_t max_tokens);
    // Throw Error(plugin) where the strategy cannot. It keeps its state then, and nothing has changed.
    kvp_kv_state* fork_sequence(kvp_kv_state* from, uint64_t id);
    void rewind_sequence(kvp_kv_state* state, int64_t n_cached);
    void close_sequence(kvp_kv_state* state);

    // A step: begin, then the layer hooks, then end.
    void step_begin(std::vector<CachedPart>& parts, uint64_t number);
    void layer_begin(uint32_t layer, const kvp_kv_evidence& evidence);
    void on_write(uint32_t layer, const kvp_kv_evidence& evidence);
    void attn_plan(uint32_t layer, const kvp_kv_evidence& evidence);  // fills the parts' segments
    void attn_done(uint32_t layer, const kvp_kv_evidence& evidence);
    void ffn_begin(uint32_t layer, const kvp_kv_evidence& evidence);
    void layer_end(uint32_t layer, const kvp_kv_evidence& evidence);  // chunk_end and prefill_end where they apply
    void step_end();
    // A full pool, in one layer: victims [kv_head][n_rows] before the page that starts at row `end`; then word of it.
    uint64_t pool_tokens() const { return needs_->pool_tokens; }
    bool drops_rows() const { return needs_->drops_rows != 0; }
    bool drops_single_rows() const { return drops_rows() && needs_->drops_rows != KVP_DROPS_PAGES; }
    bool wants_lower_tier() const { return needs_->lower_tier != 0; }
    std::vector<int32_t> evict(uint32_t sequence, uint32_t layer, int64_t end);
    void rows_replaced(uint32_t sequence, uint32_t layer, int64_t end, std::vector<int32_t>& victims);
    // The selection of a layer, on the host.
    void selected(const CachedPart& part, uint32_t layer, const KvStore::Lists& lists);
    bool wants_selected() const { return table_->selected != nullptr; }
    // Of the strategy's own data, what its ops went through since step_begin (index_traffic.h).
    double index_bytes() const { return index_bytes_; }

    bool can_calibrate() const { return table_->calibrate != nullptr && table_->aux_save != nullptr; }
    void calibrate(uint32_t layer, const float* query, const float* key, int64_t n_rows);
    std::vector<std::byte> aux_save();
    void aux_load(std::span<const std::byte> data);

private:
    friend struct StrategyServices;
    using Hook = kvp_status (*)(kvp_kv_instance*, kvp_kv_call*, const kvp_kv_step*);
    // While it lives, rows of a layer may leave, or of any.
    struct Dropping {
        Dropping(Strategy& of, std::optional<uint32_t> layer) : strategy(of) {
            strategy.dropping_ = true;
            strategy.at_layer_ = layer;
        }
        ~Dropping() {
            strategy.dropping_ = false;
            strategy.at_layer_.reset();
        }
        Strategy& strategy;
    };

    void check(kvp_status status, const char* hook);
    void call(Hook hook, const char* name, uint32_t layer, const kvp_kv_evidence* evidence);
    kvp_kv_step step(uint32_t layer, const kvp_kv_evidence* evidence) const;
    kvp_kv_eviction eviction(uint32_t sequence, uint32_t layer, int64_t end, std::vector<int32_t>& victims) const;

    const kvp_kv* table_;
    Explain explain_;
    Device& device_;
    kvp_kv_core core_{};
    kvp_kv_model described_{};  // as long as the instance
    std::string architecture_;
    kvp_kv_instance* instance_ = nullptr;
    const kvp_kv_needs* needs_ = nullptr;
    std::vector<Buffer> constants_;
    std::vector<std::string> ops_;
    KvStore* store_ = nullptr;
    Scratch* scratch_ = nullptr;

    std::vector<CachedPart>* parts_ = nullptr;  // of the step at hand
    std::vector<const kvp_kv_sequence*> part_pointers_;
    std::unordered_map<const kvp_plan*, std::string> plans_;  // what each of its plans computes
    double index_bytes_ = 0;
    uint64_t step_number_ = 0;
    bool planning_ = false;  // inside attn_plan
    bool dropping_ = false;  // inside a hook in which rows may leave: of at_layer_, or of any
    std::optional<uint32_t> at_layer_;
    std::string failure_;  // of the core, inside a service that the plugin called
    ErrorKind failure_kind_ = ErrorKind::runtime;
};

}  // namespace kvplane
