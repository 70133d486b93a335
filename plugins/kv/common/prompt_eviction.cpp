#include "common/prompt_eviction.h"

#include <algorithm>
#include <utility>

#include "common/strategy.h"

namespace kvplane::kv {

Quota Quota::of(int64_t budget, int64_t window) {
    const int64_t newest = std::clamp<int64_t>(budget / 2, 1, window);
    return {budget - newest, newest};
}

PromptEviction::PromptEviction(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model,
                               PromptEvictionSettings settings)
    : host_(host),
      core_(core),
      model_(model),
      settings_(std::move(settings)),
      window_(core, model, settings_.window),
      pool_scores_(core, "kvp.pool_scores/1"),
      selection_(core, model.n_kv_heads),
      needs_(kvp::make<kvp_kv_needs>()) {
    needs_.evidence = KVP_EVIDENCE_QUERY | KVP_EVIDENCE_LSE;
    needs_.sidecars = window_.sidecars();
    needs_.n_sidecars = ObservationWindow::n_sidecars;
    needs_.drops_rows = KVP_DROPS_ROWS;
    needs_.scratch_bytes = uint64_t{model.n_layers} * (model.n_kv_heads * uint64_t{model.context} * 12 + 1024);
    needs_.summary = kvp::str(settings_.summary);
}

void PromptEviction::attn_plan(kvp_kv_call* call, const kvp_kv_step& step) const {
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        const Turn turn(core_, host_, call, step, i, step.layer);
        turn.add_range(0, turn.n_total());
    }
}

void PromptEviction::attn_done(kvp_kv_call* call, const kvp_kv_step& step) const {
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        const Turn turn(core_, host_, call, step, i, step.layer);
        if (!turn.decodes()) {
            window_.store(turn);
        } else if (settings_.again > 0) {
            window_.store(turn);
            const int64_t over = turn.n_total() - settings_.quota(step.layer, turn.n_seen() + 1).total();
            if (over >= settings_.again) evict(turn);
        }
    }
}

void PromptEviction::prefill_end(kvp_kv_call* call, const kvp_kv_step& step, uint32_t sequence) const {
    evict(Turn(core_, host_, call, step, sequence, step.layer));
}

void PromptEviction::step_end(kvp_kv_call* call, const kvp_kv_step& step) const {
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        const Turn turn(core_, host_, call, step, i, 0);
        auto& state = state_of<State>(turn.sequence());
        state.queries = window_.after(turn, state.queries);
        if (turn.decodes() && settings_.again == 0) state.queries.begin = state.queries.end;  // they were not stored
    }
}

void PromptEviction::evict(const Turn& turn) const {
    const int64_t n = turn.n_total();
    const Quota quota = settings_.quota(turn.layer(), turn.n_seen() + turn.sequence().n_rows);
    if (n <= quota.total()) return;
    const int64_t candidates = n - quota.newest;
    const auto n_chosen = static_cast<uint32_t>(quota.chosen);
    if (n_chosen == 0) return turn.keep_rows(0, 0, 0, candidates);

    auto pool = kvp::make<kvp_pool_scores_arguments>();
    pool.scores = window_.votes(turn, window_.after(turn, state_of<State>(turn.sequence()).queries));
    pool.stride = static_cast<uint64_t>(n);
    pool.pooled_stride = static_cast<uint64_t>(candidates);
    pool.pooled = turn.scratch(model_.n_kv_heads * pool.pooled_stride * sizeof(float));
    pool.n = candidates;
    pool.n_kv_heads = model_.n_kv_heads;
    pool.mode = settings_.pooling;
    pool.width = settings_.kernel;
    pool_scores_.enqueue(turn.call(), {}, &pool);
    const SelectedRows chosen = selection_.select(turn, {pool.pooled, pool.pooled_stride, candidates, 0, 0, n_chosen});
    turn.keep_rows(chosen.index, chosen.count, n_chosen, candidates);
}

}  // namespace kvplane::kv
