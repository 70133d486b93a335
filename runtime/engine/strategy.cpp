#include "engine/strategy.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/index_traffic.h"

namespace kvplane {

// What kvp_kv_core's functions do. They are called from a plugin: no exception may leave them.
struct StrategyServices {
    static Strategy& self(kvp_kv_core_object* object) { return *reinterpret_cast<Strategy*>(object); }
    static Strategy& self(kvp_kv_call* call) { return *reinterpret_cast<Strategy*>(call); }

    template <class Body>
    static kvp_status guarded(Strategy& strategy, Body body) {
        try {
            return body();
        } catch (const Error& error) {
            strategy.failure_ = error.what();
            strategy.failure_kind_ = error.kind();
        } catch (const std::exception& error) {
            strategy.failure_ = error.what();
            strategy.failure_kind_ = ErrorKind::runtime;
        } catch (...) {
            strategy.failure_ = "an unknown exception in the core";
            strategy.failure_kind_ = ErrorKind::runtime;
        }
        return KVP_ERROR_INTERNAL;
    }

    static CachedPart& part(Strategy& strategy, uint32_t sequence) {
        if (strategy.parts_ == nullptr || sequence >= strategy.parts_->size()) {
            throw Error(ErrorKind::plugin, "the KV strategy names sequence " + std::to_string(sequence) +
                                               ", which the step does not have");
        }
        return (*strategy.parts_)[sequence];
    }

    static uint32_t layer(Strategy& strategy, uint32_t layer) {
        if (layer >= strategy.store_->layout().layers) {
            throw Error(ErrorKind::plugin, "the KV strategy names layer " + std::to_string(layer) + " of " +
                                               std::to_string(strategy.store_->layout().layers));
        }
        return layer;
    }

    static kvp_status op_support(kvp_kv_core_object* object, const kvp_op_request* request, kvp_op_answer* answer) {
        Device& device = self(object).device_;
        return device.table()->op_support(device.object(), request, answer);
    }
    static kvp_status op_prepare(kvp_kv_core_object* object, const kvp_op_request* request, kvp_plan** plan) {
        Strategy& strategy = self(object);
        return guarded(strategy, [&] {
            Device& device = strategy.device_;
            const kvp_status status = device.table()->op_prepare(device.object(), request, plan);
            if (status != KVP_OK) return status;
            const std::string op(request->op.data, request->op.n_bytes);
            strategy.plans_[*plan] = op;
            auto& ops = strategy.ops_;
            if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
            return status;
        });
    }
    static void op_release(kvp_kv_core_object* object, kvp_plan* plan) {
        self(object).plans_.erase(plan);
        self(object).device_.table()->op_release(plan);
    }
    static kvp_status op_enqueue(kvp_kv_call* call, const kvp_plan* plan, const kvp_tensor* const* operands,
                                 uint32_t n_operands, const void* arguments) {
        Strategy& strategy = self(call);
        Device& device = strategy.device_;
        const kvp_status status = device.table()->op_enqueue(device.queue(), plan, operands, n_operands, arguments);
        if (status != KVP_OK) return status;  // the arguments may mean nothing
        if (const auto op = strategy.plans_.find(plan); op != strategy.plans_.end()) {
            strategy.index_bytes_ += kvplane::index_bytes(op->second, arguments, device.reads_host_memory());
        }
        return status;
    }
    static kvp_status constant(kvp_kv_core_object* object, const void* data, uint64_t n_bytes, kvp_address* address) {
        Strategy& strategy = self(object);
        return guarded(strategy, [&] {
            Buffer buffer(strategy.device_, n_bytes, "a constant of the KV strategy");
            strategy.device_.upload(buffer.address(), data, n_bytes);
            *address = buffer.address();
            strategy.constants_.push_back(std::move(buffer));
            return KVP_OK;
        });
    }
    static kvp_status scratch(kvp_kv_call* call, uint64_t n_bytes, kvp_address* address) {
        return guarded(self(call), [&] {
            *address = self(call).scratch_->take(n_bytes);
            return KVP_OK;
        });
    }
    static kvp_status sidecar(kvp_kv_call* call, uint32_t sequence, uint32_t at_layer, uint32_t index,
                              kvp_address* address, uint64_t* capacity) {
        Strategy& strategy = self(call);
        return guarded(strategy, [&] {
            SequenceCache& cache = *part(strategy, sequence).cache;
            const auto& sidecars = cache.layers[layer(strategy, at_layer)].sidecars;
            if (index >= sidecars.size() || sidecars[index].address() == 0) return kvp_status{KVP_NOT_FOUND};
            *address = sidecars[index].address();
            *capacity = cache.sidecar_capacity(strategy.needs_->sidecars[index]->scope);
            return kvp_status{KVP_OK};
        });
    }
    static kvp_status rows(kvp_kv_call* call, uint32_t sequence, uint32_t at_layer, kvp_rows* rows) {
        Strategy& strategy = self(call);
        return guarded(strategy, [&] {
            *rows = strategy.store_->rows(*part(strategy, sequence).cache, layer(strategy, at_layer));
            return KVP_OK;
        });
    }
    static kvp_status fetch(kvp_kv_call* call, uint32_t sequence, uint32_t at_layer, const kvp_segment* segment,
                            uint64_t* ticket) {
        Strategy& strategy = self(call);
        return guarded(strategy, [&] {
            *ticket = strategy.store_->fetch(*part(strategy, sequence).cache, layer(strategy, at_layer), *segment);
            return KVP_OK;
        });
    }
    static kvp_status segment(kvp_kv_call* call, uint32_t sequence, const kvp_segment* segment) {
        Strategy& strategy = self(call);
        return guarded(strategy, [&] {
            if (!strategy.planning_) throw Error(ErrorKind::plugin, "the KV strategy adds a segment outside attn_plan");
            CachedPart& target = part(strategy, sequence);
            const int64_t n_total = target.abi.n_cached + target.abi.n_rows;
            if (segment->form == KVP_SEGMENT_RANGE && (segment->begin < 0 || segment->end > n_total)) {
                throw Error(ErrorKind::plugin, "the KV strategy wants rows [" + std::to_string(segment->begin) + ", " +
                                                   std::to_string(segment->end) + ") of " + std::to_string(n_total));
            }
            if (segment->form == KVP_SEGMENT_RANGE && segment->begin >= segment->end) return KVP_OK;
            target.segments.push_back(*segment);
            return KVP_OK;
        });
    }
    static kvp_status copy(kvp_kv_call* call, const kvp_copy_region* regions, uint32_t n_regions) {
        return guarded(self(call), [&] {
            self(call).device_.copy({regions, n_regions});
            return KVP_OK;
        });
    }

    // The cache of a layer whose rows may leave now, and how many it has.
    static SequenceCache& droppable(Strategy& strategy, uint32_t sequence, uint32_t at_layer, int64_t& n_rows) {
        if (!strategy.drops_rows()) {
            throw Error(ErrorKind::plugin, "the KV strategy drops rows, but its needs do not say so");
        }
        if (!strategy.dropping_ || (strategy.at_layer_ && *strategy.at_layer_ != layer(strategy, at_layer))) {
            throw Error(ErrorKind::plugin,
                        "the KV strategy drops rows of layer " + std::to_string(at_layer) + " in a hook that must not");
        }
        const CachedPart& named = part(strategy, sequence);
        n_rows = named.cache->n_rows(layer(strategy, at_layer)) + (strategy.at_layer_ ? named.abi.n_rows : 0);
        return *named.cache;
    }
    static kvp_status keep_rows(kvp_kv_call* call, uint32_t sequence, uint32_t at_layer, kvp_address index,
                                uint64_t index_stride, uint32_t n_chosen, int64_t tail_begin) {
        Strategy& strategy = self(call);
        return guarded(strategy, [&] {
            if (strategy.drops_rows() && !strategy.drops_single_rows()) {
                throw Error(ErrorKind::plugin, "the KV strategy drops single rows, but its needs say whole pages");
            }
            int64_t n_rows = 0;
            SequenceCache& cache = droppable(strategy, sequence, at_layer, n_rows);
            strategy.store_->keep_rows(cache, at_layer, n_rows, {index, index_stride, n_chosen, tail_begin});
            return KVP_OK;
        });
    }
    static kvp_status drop_pages(kvp_kv_call* call, uint32_t sequence, uint32_t at_layer, uint32_t first,
                                 uint32_t n_pages) {
        Strategy& strategy = self(call);
        return guarded(strategy, [&] {
            int64_t n_rows = 0;
            SequenceCache& cache = droppable(strategy, sequence, at_layer, n_rows);
            strategy.store_->drop_pages(cache, at_layer, n_rows, first, n_pages);
            return KVP_OK;
        });
    }

    static kvp_status visit(kvp_kv_call* call, uint32_t sequence, uint32_t at_layer, int64_t begin, int64_t end,
                            kvp_status (*visit)(void*, const kvp_rows*, int64_t, int64_t), void* context) {
        Strategy& strategy = self(call);
        return guarded(strategy, [&] {
            kvp_status result = KVP_OK;
            const CachedPart& named = part(strategy, sequence);
            const int64_t n_rows = named.cache->n_rows(layer(strategy, at_layer)) + named.abi.n_rows;
            if (begin < 0 || end > n_rows) {
                throw Error(ErrorKind::plugin, "the KV strategy visits rows [" + std::to_string(begin) + ", " +
                                                   std::to_string(end) + ") of " + std::to_string(n_rows));
            }
            strategy.store_->walk(*part(strategy, sequence).cache, layer(strategy, at_layer), begin, end,
                                  [&](const kvp_rows& rows, int64_t from, int64_t to) {
                                      if (result == KVP_OK) result = visit(context, &rows, from, to);
                                  });
            return result;
        });
    }
};

Strategy::Strategy(const kvp_kv* table, Explain explain, Device& device, const Model& model, const Graph& graph,
                   const Weights& weights, const Setting& setting)
    : table_(table), explain_(std::move(explain)), device_(device) {
    core_.head.struct_size = sizeof(core_);
    core_.object = reinterpret_cast<kvp_kv_core_object*>(this);
    core_.op_support = StrategyServices::op_support;
    core_.op_prepare = StrategyServices::op_prepare;
    core_.op_release = StrategyServices::op_release;
    core_.op_enqueue = StrategyServices::op_enqueue;
    core_.constant = StrategyServices::constant;
    core_.scratch = StrategyServices::scratch;
    core_.sidecar = StrategyServices::sidecar;
    core_.rows = StrategyServices::rows;
    core_.fetch = StrategyServices::fetch;
    core_.segment = StrategyServices::segment;
    core_.visit = StrategyServices::visit;
    core_.copy = StrategyServices::copy;
    core_.keep_rows = StrategyServices::keep_rows;
    core_.drop_pages = StrategyServices::drop_pages;

    const ModelShape& shape = model.shape();
    architecture_ = shape.architecture;
    kvp_kv_model& described = described_;
    described.head.struct_size = sizeof(described);
    described.architecture = {architecture_.data(), architecture_.size()};
    described.fingerprint = setting.fingerprint;
    described.n_layers = shape.layers;
    described.n_heads = shape.heads;
    described.n_kv_heads = shape.kv_heads;
    described.head_size = shape.head_size;
    described.width = shape.width;
    described.context = setting.context;
    described.page_tokens = setting.layout.page_tokens;
    described.group_tokens = setting.layout.group_tokens;
    described.kv_type = setting.layout.type;
    described.reads_tiers_in_place = setting.in_place ? 1 : 0;
    described.norm_epsilon = shape.norm_epsilon;
    described.rope_style = shape.rope.interleaved ? uint32_t{KVP_ROPE_INTERLEAVED} : uint32_t{KVP_ROPE_HALVES};
    described.rope_dimensions = shape.rope.dimensions;
    described.rope_magnitude = shape.rope.magnitude;
    described.rope_frequencies = weights[graph.rope_frequencies].abi();
    check(table_->create(&core_, &described, &instance_, &needs_), "create");

    for (uint32_t layer = 0; table_->weights_ready != nullptr && layer < shape.layers; ++layer) {
        const LayerGraph& ids = graph.layers[layer];
        kvp_kv_weights ready{};
        ready.head.struct_size = sizeof(ready);
        ready.attention_norm = weights[ids.attention_norm].abi();
        ready.query = weights[ids.query_weight].abi();
        ready.key = weights[ids.key_weight].abi();
        check(table_->weights_ready(instance_, layer, &ready), "weights_ready");
    }
}

Strategy::~Strategy() {
    if (instance_ != nullptr) table_->destroy(instance_);
}

void Strategy::check(kvp_status status, const char* hook) {
    if (status == KVP_OK) {
        failure_.clear();  // the plugin could do without what failed
        return;
    }
    const std::string reason = explain_(status);
    if (!failure_.empty()) {
        // The core itself failed inside one of its services; that is the cause.
        const std::string cause = std::exchange(failure_, {});
        throw Error(failure_kind_, cause);
    }
    throw Error(ErrorKind::plugin, "the KV strategy failed in " + std::string(hook) + ": " + reason);
}

std::vector<SidecarSpec> Strategy::sidecars() const {
    std::vector<SidecarSpec> specs;
    for (uint32_t i = 0; i < needs_->n_sidecars; ++i) {
        const kvp_sidecar& sidecar = *needs_->sidecars[i];
        specs.push_back({std::string(sidecar.name.data, sidecar.name.n_bytes), sidecar.scope, sidecar.first_layer,
                         sidecar.n_bytes});
    }
    return specs;
}

void Strategy::attach(KvStore& store, Scratch& scratch) {
    store_ = &store;
    scratch_ = &scratch;
}

kvp_kv_state* Strategy::open_sequence(uint64_t id, int64_t prompt_tokens, int64_t max_tokens) {
    kvp_kv_state* state = nullptr;
    if (table_->seq_open != nullptr) {
        check(table_->seq_open(instance_, id, prompt_tokens, max_tokens, &state), "seq_open");
    }
    return state;
}

kvp_kv_state* Strategy::fork_sequence(kvp_kv_state* from, uint64_t id) {
    kvp_kv_state* state = nullptr;
    if (table_->seq_fork != nullptr) {
        check(table_->seq_fork(instance_, from, id, &state), "seq_fork");
    } else if (from != nullptr) {
        throw Error(ErrorKind::plugin, "the KV strategy keeps a state of each sequence and cannot fork it");
    }
    return state;
}

void Strategy::rewind_sequence(kvp_kv_state* state, int64_t n_cached) {
    if (table_->seq_rewind != nullptr) {
        check(table_->seq_rewind(instance_, state, n_cached), "seq_rewind");
    } else if (state != nullptr || needs_->n_sidecars > 0) {
        throw Error(ErrorKind::plugin, "the KV strategy keeps a state of each sequence and cannot rewind it");
    }
}

void Strategy::close_sequence(kvp_kv_state* state) {
    if (table_->seq_close != nullptr) table_->seq_close(instance_, state);
}

kvp_kv_step Strategy::step(uint32_t layer, const kvp_kv_evidence* evidence) const {
    kvp_kv_step step{};
    step.head.struct_size = sizeof(step);
    step.number = step_number_;
    step.sequences = part_pointers_.data();
    step.n_sequences = static_cast<uint32_t>(part_pointers_.size());
    step.layer = layer;
    step.evidence = evidence;
    step.queue = device_.queue();
    return step;
}

void Strategy::call(Hook hook, const char* name, uint32_t layer, const kvp_kv_evidence* evidence) {
    if (hook == nullptr) return;
    const kvp_kv_step at = step(layer, evidence);
    check(hook(instance_, reinterpret_cast<kvp_kv_call*>(this), &at), name);
}

void Strategy::step_begin(std::vector<CachedPart>& parts, uint64_t number) {
    parts_ = &parts;
    step_number_ = number;
    index_bytes_ = 0;
    part_pointers_.clear();
    for (const CachedPart& part : parts) part_pointers_.push_back(&part.abi);
    const Dropping anywhere(*this, std::nullopt);
    call(table_->step_begin, "step_begin", 0, nullptr);
}

void Strategy::layer_begin(uint32_t layer, const kvp_kv_evidence& evidence) {
    call(table_->layer_begin, "layer_begin", layer, &evidence);
}

void Strategy::on_write(uint32_t layer, const kvp_kv_evidence& evidence) {
    call(table_->on_write, "on_write", layer, &evidence);
}

void Strategy::attn_plan(uint32_t layer, const kvp_kv_evidence& evidence) {
    for (CachedPart& part : *parts_) part.segments.clear();
    planning_ = true;
    call(table_->attn_plan, "attn_plan", layer, &evidence);
    planning_ = false;
    for (const CachedPart& part : *parts_) {
        const int64_t n_total = part.abi.n_cached + part.abi.n_rows;
        bool sees_itself = false;
        for (const kvp_segment& segment : part.segments) {
            sees_itself = sees_itself || (segment.form == KVP_SEGMENT_RANGE && segment.begin <= part.abi.n_cached &&
                                          segment.end == n_total && (segment.flags & KVP_SEGMENT_CAUSAL) != 0);
        }
        if (!sees_itself) {
            throw Error(ErrorKind::plugin, "the KV strategy leaves out the step's own rows in layer " +
                                               std::to_string(layer) + "; one causal RANGE must hold them");
        }
    }
}

void Strategy::attn_done(uint32_t layer, const kvp_kv_evidence& evidence) {
    const Dropping here(*this, layer);
    call(table_->attn_done, "attn_done", layer, &evidence);
}

void Strategy::ffn_begin(uint32_t layer, const kvp_kv_evidence& evidence) {
    const Dropping here(*this, layer);
    call(table_->ffn_begin, "ffn_begin", layer, &evidence);
}

void Strategy::layer_end(uint32_t layer, const kvp_kv_evidence& evidence) {
    const Dropping here(*this, layer);
    const kvp_kv_step at = step(layer, &evidence);
    auto* context = reinterpret_cast<kvp_kv_call*>(this);
    for (uint32_t i = 0; i < parts_->size(); ++i) {
        const kvp_kv_sequence& part = (*parts_)[i].abi;
        if (part.phase != KVP_PHASE_PREFILL) continue;
        if (table_->chunk_end != nullptr) check(table_->chunk_end(instance_, context, &at, i), "chunk_end");
        if (part.last_chunk == 0 || table_->prefill_end == nullptr) continue;
        check(table_->prefill_end(instance_, context, &at, i), "prefill_end");
    }
}

void Strategy::step_end() {
    call(table_->step_end, "step_end", 0, nullptr);
    parts_ = nullptr;
}

kvp_kv_eviction Strategy::eviction(uint32_t sequence, uint32_t layer, int64_t end,
                                   std::vector<int32_t>& victims) const {
    const PageLayout& layout = store_->layout();
    kvp_kv_eviction made{};
    made.head.struct_size = sizeof(made);
    made.sequence = sequence;
    made.layer = layer;
    made.n_rows = layout.page_tokens;
    made.n_kv_heads = layout.kv_heads;
    made.candidates_begin = 0;
    made.candidates_end = end;
    made.victims = victims.data();
    return made;
}

std::vector<int32_t> Strategy::evict(uint32_t sequence, uint32_t layer, int64_t end) {
    if (table_->evict == nullptr) {
        throw Error(ErrorKind::plugin, "the KV strategy limits its pool, but cannot choose what leaves it");
    }
    const PageLayout& layout = store_->layout();
    std::vector<int32_t> victims(size_t{layout.kv_heads} * layout.page_tokens, -1);
    const kvp_kv_step at = step(layer, nullptr);
    const kvp_kv_eviction wanted = eviction(sequence, layer, end, victims);
    check(table_->evict(instance_, reinterpret_cast<kvp_kv_call*>(this), &at, &wanted), "evict");
    for (uint32_t head = 0; head < layout.kv_heads; ++head) {
        std::vector<int32_t> sorted(victims.begin() + head * layout.page_tokens,
                                    victims.begin() + (head + 1) * layout.page_tokens);
        std::sort(sorted.begin(), sorted.end());
        if (sorted.front() < 0 || sorted.back() >= end ||
            std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
            throw Error(ErrorKind::plugin, "the KV strategy chose victims that are out of bounds or not distinct");
        }
    }
    return victims;
}

void Strategy::rows_replaced(uint32_t sequence, uint32_t layer, int64_t end, std::vector<int32_t>& victims) {
    if (table_->rows_replaced == nullptr) return;
    const kvp_kv_step at = step(layer, nullptr);
    const kvp_kv_eviction done = eviction(sequence, layer, end, victims);
    check(table_->rows_replaced(instance_, reinterpret_cast<kvp_kv_call*>(this), &at, &done), "rows_replaced");
}

void Strategy::selected(const CachedPart& part, uint32_t layer, const KvStore::Lists& lists) {
    check(table_->selected(instance_, part.abi.state, layer, lists.index.data(), lists.counts.data(), lists.stride),
          "selected");
}

void Strategy::calibrate(uint32_t layer, const float* query, const float* key, int64_t n_rows) {
    check(table_->calibrate(instance_, layer, query, key, n_rows), "calibrate");
}

std::vector<std::byte> Strategy::aux_save() {
    std::vector<std::byte> data;
    const auto append = [](void* context, const void* bytes, uint64_t n_bytes) -> kvp_status {
        auto& target = *static_cast<std::vector<std::byte>*>(context);
        const auto* source = static_cast<const std::byte*>(bytes);
        try {
            target.insert(target.end(), source, source + n_bytes);
        } catch (...) {  // bad_alloc, length_error
            return KVP_ERROR_MEMORY;
        }
        return KVP_OK;
    };
    check(table_->aux_save(instance_, append, &data), "aux_save");
    return data;
}

void Strategy::aux_load(std::span<const std::byte> data) {
    if (table_->aux_load == nullptr) {
        throw Error(ErrorKind::config, "kv.aux is set, but the KV strategy takes no calibration; remove the key");
    }
    check(table_->aux_load(instance_, data.data(), data.size()), "aux_load");
}

}  // namespace kvplane
