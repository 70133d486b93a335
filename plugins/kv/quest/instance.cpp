#include "instance.h"

#include <utility>

#include "common/strategy.h"

namespace kvplane::quest {

Instance::Instance(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model)
    : host_(host),
      core_(core),
      model_(model),
      settings_(Settings::read(host, model)),
      bounds_(core, model_, settings_),
      selection_(core, model.n_kv_heads),
      sidecars_{&bounds_.sidecar()},
      summary_(settings_.summary()),
      needs_(kvp::make<kvp_kv_needs>()) {
    needs_.evidence = KVP_EVIDENCE_QUERY;
    needs_.sidecars = sidecars_;
    needs_.n_sidecars = 1;
    needs_.dense_layers = settings_.dense_layers;
    const uint64_t n_pages = model.context / settings_.page_tokens + 2;
    needs_.scratch_bytes = (model.n_layers - settings_.dense_layers) * model.n_kv_heads * (8 * n_pages + 768);
    needs_.summary = kvp::str(summary_);
}

Instance::State Instance::open(int64_t, int64_t) const {
    return {std::vector<bool>(model_.n_layers)};
}

void Instance::rewind(State& state, int64_t) const {
    state.stale.assign(model_.n_layers, true);
}

void Instance::on_write(kvp_kv_call* call, const kvp_kv_step& step) const {
    if (step.layer < settings_.dense_layers) return;
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        const kv::Turn turn(core_, host_, call, step, i, step.layer);
        auto& state = kv::state_of<State>(turn.sequence());
        bounds_.append(turn, state.stale[step.layer]);
        state.stale[step.layer] = false;
    }
}

void Instance::attn_plan(kvp_kv_call* call, const kvp_kv_step& step) const {
    for (uint32_t i = 0; i < step.n_sequences; i++) plan(kv::Turn(core_, host_, call, step, i, step.layer));
}

void Instance::plan(const kv::Turn& turn) const {
    const int64_t newest =
        turn.n_past() / settings_.page_tokens;  // the page that holds the new row; all before are full
    const int64_t n_chosen = settings_.pages_read(turn.n_past()) - 1;
    if (turn.layer() < settings_.dense_layers || !turn.decodes() || n_chosen >= newest) {
        turn.add_range(0, turn.n_total());
        return;
    }
    if (n_chosen > 0) {
        const auto n_pages = static_cast<uint64_t>(newest);
        const kv::ScoredRows scored{bounds_.scores(turn, newest),   n_pages, newest, 0, 0,
                                    static_cast<uint32_t>(n_chosen)};
        turn.add(kv::page_list(selection_.select(turn, scored), settings_.page_tokens));
    }
    turn.add_range(newest * settings_.page_tokens, turn.n_total());
}

}  // namespace kvplane::quest
