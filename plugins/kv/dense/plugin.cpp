// dense: every step reads the whole cache. What the others are measured against.
#include "kvplane/sdk/plugin.hpp"
#include "kvplane/kv.h"

KVP_MANIFEST(KVP_MANIFEST_JSON("kv", "dense", "1.0.0"));

struct kvp_kv_instance {
    const kvp_kv_core* core;
    kvp_kv_needs needs;
};

namespace {

kvp::Host host;

kvp_status create(const kvp_kv_core* core, const kvp_kv_model*, kvp_kv_instance** instance,
                  const kvp_kv_needs** needs) {
    return host.guard([&] {
        auto* made = new kvp_kv_instance{core, kvp::make<kvp_kv_needs>()};
        made->needs.summary = kvp::str("dense: every cached row");
        *instance = made;
        *needs = &made->needs;
    });
}

void destroy(kvp_kv_instance* instance) {
    delete instance;
}

kvp_status attn_plan(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step) {
    auto segment = kvp::make<kvp_segment>();
    segment.form = KVP_SEGMENT_RANGE;
    segment.flags = KVP_SEGMENT_CAUSAL;
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        segment.end = step->sequences[i]->n_cached + step->sequences[i]->n_rows;
        const kvp_status status = instance->core->segment(call, i, &segment);
        if (status != KVP_OK) return status;
    }
    return KVP_OK;
}

constexpr kvp_kv strategy = [] {
    auto made = kvp::make<kvp_kv>();
    made.create = create;
    made.destroy = destroy;
    made.attn_plan = attn_plan;
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

constexpr std::array<const kvp_option*, 0> options{};
constexpr auto descriptor = kvp::describe("dense", "1.0.0", "kvplane", options, init, fini, get_kind);

}  // namespace

KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host*) {
    return &descriptor;
}
