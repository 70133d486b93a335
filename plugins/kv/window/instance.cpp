#include "instance.h"

#include "common/strategy.h"

namespace kvplane::window {

namespace {

TurnedSinks turned_sinks(const kvp_kv_core& core, const kvp_kv_model& model, const Settings& settings) {
    if (!settings.cache_positions || model.rope_style == 0 || settings.sinks == 0) return {};
    return {core, model, settings.sinks};
}

}  // namespace

Instance::Instance(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model)
    : host_(host),
      core_(core),
      model_(model),
      settings_(Settings::read(host)),
      sinks_(turned_sinks(core, model_, settings_)),
      summary_(settings_.summary()),
      needs_(kvp::make<kvp_kv_needs>()) {
    needs_.drops_rows = KVP_DROPS_PAGES;
    needs_.scratch_bytes = model.n_layers * (sinks_.scratch_bytes() + 256);
    needs_.summary = kvp::str(summary_);
}

bool Instance::reads_all(const kvp_kv_sequence& sequence) const {
    return settings_.whole_prompt && sequence.phase == KVP_PHASE_PREFILL;
}

void Instance::step_begin(kvp_kv_call* call, const kvp_kv_step& step) const {
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        if (!reads_all(*step.sequences[i])) drop(call, *step.sequences[i], i);
    }
}

// The pages between those of the sinks and that of the window's begin hold nothing that is read again.
void Instance::drop(kvp_kv_call* call, const kvp_kv_sequence& sequence, uint32_t number) const {
    auto& state = kv::state_of<State>(sequence);
    const int64_t page_tokens = model_.page_tokens;
    const int64_t sink_pages = (settings_.sinks + page_tokens - 1) / page_tokens;
    const int64_t window_page = settings_.window_begin(sequence.position) / page_tokens;
    const int64_t n_pages = window_page - sink_pages - state.dropped / page_tokens;
    if (n_pages <= 0) return;
    for (uint32_t layer = 0; layer < model_.n_layers; layer++) {
        kvp::check(
            core_.drop_pages(call, number, layer, static_cast<uint32_t>(sink_pages), static_cast<uint32_t>(n_pages)));
    }
    state.dropped += n_pages * page_tokens;
}

void Instance::attn_plan(kvp_kv_call* call, const kvp_kv_step& step) const {
    for (uint32_t i = 0; i < step.n_sequences; i++) plan(kv::Turn(core_, host_, call, step, i, step.layer));
}

void Instance::plan(const kv::Turn& turn) const {
    const int64_t begin = settings_.window_begin(turn.n_seen());
    if (reads_all(turn.sequence()) || begin == settings_.sinks || turn.n_seen() <= settings_.sinks) {
        turn.add_range(0, turn.n_total());
        return;
    }
    if (sinks_) {
        turn.add(sinks_.segment(turn, begin - settings_.sinks));
    } else {
        turn.add_range(0, settings_.sinks);
    }
    turn.add_range(begin - kv::state_of<State>(turn.sequence()).dropped, turn.n_total());
}

}  // namespace kvplane::window
