// From a class to a KV strategy plugin: every hook that the class has goes into the table, with its exceptions caught.
//
// The class, with only the hooks that it wants:
//   Instance(const kvp::Host&, const kvp_kv_core&, const kvp_kv_model&)
//   const kvp_kv_needs* needs() const
//   struct State, State open(int64_t prompt_tokens, int64_t max_tokens) const       a sequence's own data; a fork copies it
//   void rewind(State&, int64_t n_cached) const
//   void step_begin | layer_begin | on_write | attn_plan | attn_done | ffn_begin | step_end(kvp_kv_call*, const kvp_kv_step&)
//   void chunk_end | prefill_end(kvp_kv_call*, const kvp_kv_step&, uint32_t sequence)
#pragma once

#include <memory>

#include "kvplane/kv.h"
#include "kvplane/sdk/plugin.hpp"

namespace kvplane::kv {

// The strategy's data of a sequence, as its class made it.
template <class State>
State& state_of(const kvp_kv_sequence& sequence) {
    return *reinterpret_cast<State*>(sequence.state);
}

template <class Instance>
class Strategy {
public:
    template <size_t n>
    static constexpr kvp_plugin_descriptor describe(std::string_view id,
                                                    const std::array<const kvp_option*, n>& options) {
        return kvp::describe(id, "1.0.0", "kvplane", options, init, fini, get_kind);
    }

private:
    static inline kvp::Host host;

    static Instance& of(kvp_kv_instance* instance) { return *reinterpret_cast<Instance*>(instance); }

    static kvp_status create(const kvp_kv_core* core, const kvp_kv_model* model, kvp_kv_instance** instance,
                             const kvp_kv_needs** needs) {
        return host.guard([&] {
            auto made = std::make_unique<Instance>(host, *core, *model);
            *needs = made->needs();
            *instance = reinterpret_cast<kvp_kv_instance*>(made.release());
        });
    }

    static void destroy(kvp_kv_instance* instance) { delete &of(instance); }

    static constexpr kvp_kv make_table() {
        auto made = kvp::make<kvp_kv>();
        made.create = create;
        made.destroy = destroy;
        add_sequences(made);
        using Call = kvp_kv_call*;
        using Step = const kvp_kv_step*;
#define KVPLANE_HOOK(name)                                                                     \
    if constexpr (requires(Instance & one, Call call, Step step) { one.name(call, *step); }) { \
        made.name = [](kvp_kv_instance* instance, Call call, Step step) {                      \
            return host.guard([&] { of(instance).name(call, *step); });                        \
        };                                                                                     \
    }
        KVPLANE_HOOK(step_begin)
        KVPLANE_HOOK(layer_begin)
        KVPLANE_HOOK(on_write)
        KVPLANE_HOOK(attn_plan)
        KVPLANE_HOOK(attn_done)
        KVPLANE_HOOK(ffn_begin)
        KVPLANE_HOOK(step_end)
#undef KVPLANE_HOOK
#define KVPLANE_HOOK(name)                                                                                      \
    if constexpr (requires(Instance & one, Call call, Step step, uint32_t at) { one.name(call, *step, at); }) { \
        made.name = [](kvp_kv_instance* instance, Call call, Step step, uint32_t at) {                          \
            return host.guard([&] { of(instance).name(call, *step, at); });                                     \
        };                                                                                                      \
    }
        KVPLANE_HOOK(chunk_end)
        KVPLANE_HOOK(prefill_end)
#undef KVPLANE_HOOK
        return made;
    }

    static constexpr void add_sequences(kvp_kv& made) {
        if constexpr (requires { typename Instance::State; }) {
            using State = typename Instance::State;
            made.seq_open = [](kvp_kv_instance* instance, uint64_t, int64_t prompt_tokens, int64_t max_tokens,
                               kvp_kv_state** state) {
                return host.guard([&] {
                    auto opened = std::make_unique<State>(of(instance).open(prompt_tokens, max_tokens));
                    *state = reinterpret_cast<kvp_kv_state*>(opened.release());
                });
            };
            made.seq_fork = [](kvp_kv_instance*, kvp_kv_state* from, uint64_t, kvp_kv_state** state) {
                return host.guard(
                    [&] { *state = reinterpret_cast<kvp_kv_state*>(new State(*reinterpret_cast<State*>(from))); });
            };
            made.seq_close = [](kvp_kv_instance*, kvp_kv_state* state) { delete reinterpret_cast<State*>(state); };
            if constexpr (requires(Instance & one, State & state) { one.rewind(state, int64_t{}); }) {
                made.seq_rewind = [](kvp_kv_instance* instance, kvp_kv_state* state, int64_t n_cached) {
                    return host.guard([&] { of(instance).rewind(*reinterpret_cast<State*>(state), n_cached); });
                };
            }
        }
    }

    static constexpr kvp_kv table = make_table();

    static kvp_status init(const kvp_host* given) {
        host = kvp::Host(given);
        return KVP_OK;
    }
    static void fini() {
        host = kvp::Host();
    }
    static const void* get_kind(kvp_str kind) {
        return kvp::view(kind) == KVP_KIND_KV ? &table : nullptr;
    }
};

}  // namespace kvplane::kv

// A plugin's manifest and its one exported function. `options`: an array of pointers with static storage.
#define KVPLANE_KV_PLUGIN(id, Instance, options)                                                                \
    KVP_MANIFEST(KVP_MANIFEST_JSON("kv", id, "1.0.0"));                                                         \
    KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host*) {                              \
        static const kvp_plugin_descriptor descriptor = kvplane::kv::Strategy<Instance>::describe(id, options); \
        return &descriptor;                                                                                     \
    }
