// infinigen as a plugin: the descriptor and the table, each entry a call of Instance with its exceptions caught.
#include "kvplane/sdk/plugin.hpp"
#include "instance.h"

KVP_MANIFEST(KVP_MANIFEST_JSON("kv", "infinigen", "1.0.0"));

namespace {

using Call = kvp_kv_call*;
using Step = const kvp_kv_step*;

kvp::Host host;

kvp_status create(const kvp_kv_core* core, const kvp_kv_model* model, kvp_kv_instance** instance,
                  const kvp_kv_needs** needs) {
    return host.guard([&] {
        auto made = std::make_unique<kvp_kv_instance>(host, *core, *model);
        *needs = made->needs();
        *instance = made.release();
    });
}

void destroy(kvp_kv_instance* instance) {
    delete instance;
}

kvp_status weights_ready(kvp_kv_instance* instance, uint32_t layer, const kvp_kv_weights* weights) {
    return host.guard([&] { instance->set_weights(layer, *weights); });
}

kvp_status calibrate(kvp_kv_instance* instance, uint32_t layer, const float* query, const float*, int64_t n_rows) {
    return host.guard([&] { instance->calibrate(layer, query, n_rows); });
}

kvp_status aux_save(kvp_kv_instance* instance, kvp_kv_blob_fn write, void* context) {
    return host.guard([&] {
        const auto bytes = instance->save_aux();
        return write(context, bytes.data(), bytes.size());
    });
}

kvp_status aux_load(kvp_kv_instance* instance, const void* data, uint64_t n_bytes) {
    return host.guard([&] { instance->load_aux({static_cast<const std::byte*>(data), static_cast<size_t>(n_bytes)}); });
}

kvp_status seq_open(kvp_kv_instance* instance, uint64_t, int64_t, int64_t, kvp_kv_state** state) {
    return host.guard([&] { *state = instance->open().release(); });
}

kvp_status seq_fork(kvp_kv_instance*, kvp_kv_state* from, uint64_t, kvp_kv_state** state) {
    return host.guard([&] { *state = new kvp_kv_state(*from); });
}

kvp_status seq_rewind(kvp_kv_instance* instance, kvp_kv_state* state, int64_t n_cached) {
    return host.guard([&] { instance->rewind(*state, n_cached); });
}

void seq_close(kvp_kv_instance*, kvp_kv_state* state) {
    delete state;
}

kvp_status step_begin(kvp_kv_instance* instance, Call call, Step step) {
    return host.guard([&] { instance->step_begin(call, *step); });
}

kvp_status layer_begin(kvp_kv_instance* instance, Call call, Step step) {
    return host.guard([&] { instance->layer_begin(call, *step); });
}

kvp_status on_write(kvp_kv_instance* instance, Call call, Step step) {
    return host.guard([&] { instance->on_write(call, *step); });
}

kvp_status attn_plan(kvp_kv_instance* instance, Call call, Step step) {
    return host.guard([&] { instance->attn_plan(call, *step); });
}

kvp_status ffn_begin(kvp_kv_instance* instance, Call call, Step step) {
    return host.guard([&] { instance->ffn_begin(call, *step); });
}

kvp_status prefill_end(kvp_kv_instance* instance, Call call, Step step, uint32_t sequence) {
    return host.guard([&] { instance->prefill_end(call, *step, sequence); });
}

kvp_status evict(kvp_kv_instance* instance, Call, Step step, const kvp_kv_eviction* eviction) {
    return host.guard([&] { instance->evict(*step, *eviction); });
}

kvp_status rows_replaced(kvp_kv_instance* instance, Call call, Step step, const kvp_kv_eviction* eviction) {
    return host.guard([&] { instance->rows_replaced(call, *step, *eviction); });
}

kvp_status selected(kvp_kv_instance* instance, kvp_kv_state* state, uint32_t layer, const int32_t* index,
                    const int32_t* counts, uint64_t index_stride) {
    return host.guard([&] { instance->selected(*state, layer, index, counts, index_stride); });
}

constexpr kvp_kv strategy = [] {
    auto made = kvp::make<kvp_kv>();
    made.create = create;
    made.destroy = destroy;
    made.weights_ready = weights_ready;
    made.calibrate = calibrate;
    made.aux_save = aux_save;
    made.aux_load = aux_load;
    made.seq_open = seq_open;
    made.seq_fork = seq_fork;
    made.seq_rewind = seq_rewind;
    made.seq_close = seq_close;
    made.step_begin = step_begin;
    made.layer_begin = layer_begin;
    made.on_write = on_write;
    made.attn_plan = attn_plan;
    made.ffn_begin = ffn_begin;
    made.prefill_end = prefill_end;
    made.evict = evict;
    made.rows_replaced = rows_replaced;
    made.selected = selected;
    return made;
}();

kvp_status init(const kvp_host* given) {
    host = kvp::Host(given);
    return KVP_OK;
}

void fini() {
    host = kvp::Host();
}

const void* get_kind(kvp_str kind) {
    return kvp::view(kind) == KVP_KIND_KV ? &strategy : nullptr;
}

const auto descriptor =
    kvp::describe("infinigen", "1.0.0", "kvplane", kvplane::infinigen::option_pointers, init, fini, get_kind);

}  // namespace

KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host*) {
    return &descriptor;
}
