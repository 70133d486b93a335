#include "instance.h"

#include <algorithm>

#include "common/strategy.h"

namespace kvplane::h2o {

namespace {

// f32 a row and KV head: they have to add up thousands of small probabilities.
kvp_sidecar token_sidecar(std::string_view name) {
    auto sidecar = kvp::make<kvp_sidecar>();
    sidecar.name = kvp::str(name);
    sidecar.scope = KVP_SIDECAR_TOKEN;
    sidecar.n_bytes = sizeof(float);
    return sidecar;
}

}  // namespace

Instance::Instance(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model)
    : host_(host),
      core_(core),
      model_(model),
      settings_(Settings::read(host)),
      column_sums_(core, model_),
      selection_(core, model.n_kv_heads),
      summary_(settings_.summary()),
      needs_(kvp::make<kvp_kv_needs>()) {
    sidecars_.push_back(token_sidecar("sums"));
    if (settings_.normalize) {
        sidecars_.push_back(token_sidecar("counts"));
        divide_ = kv::DeviceOp(core, "kvp.pool_scores/1");
    }
    for (const kvp_sidecar& sidecar : sidecars_) pointers_.push_back(&sidecar);
    needs_.evidence = KVP_EVIDENCE_QUERY | KVP_EVIDENCE_LSE;
    needs_.sidecars = pointers_.data();
    needs_.n_sidecars = static_cast<uint32_t>(pointers_.size());
    needs_.drops_rows = KVP_DROPS_ROWS;
    needs_.scratch_bytes = uint64_t{model.n_layers} * (model.n_kv_heads * uint64_t{model.context} * 8 + 1024);
    needs_.summary = kvp::str(summary_);
}

void Instance::attn_plan(kvp_kv_call* call, const kvp_kv_step& step) const {
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        const kv::Turn turn(core_, host_, call, step, i, step.layer);
        turn.add_range(0, turn.n_total());
    }
}

void Instance::attn_done(kvp_kv_call* call, const kvp_kv_step& step) const {
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        const kv::Turn turn(core_, host_, call, step, i, step.layer);
        sum(turn);
        if (!turn.decodes()) continue;
        const auto& state = kv::state_of<State>(turn.sequence());
        const Quota quota = settings_.after_token(turn.n_seen() + 1, state.n_prompt);
        if (turn.n_total() >= quota.total() + settings_.interval) evict(turn, quota);
    }
}

void Instance::prefill_end(kvp_kv_call* call, const kvp_kv_step& step, uint32_t sequence) const {
    const kv::Turn turn(core_, host_, call, step, sequence, step.layer);
    auto& state = kv::state_of<State>(turn.sequence());
    state.n_prompt = turn.n_seen() + turn.sequence().n_rows;
    evict(turn, settings_.after_prompt(state.n_prompt));
}

kv::Sums Instance::sums(const kv::Turn& turn) const {
    kv::Sums found{0, 0, 0, turn.n_past()};
    found.sums = turn.sidecar(0, &found.capacity);
    if (settings_.normalize) found.counts = turn.sidecar(1);
    return found;
}

void Instance::sum(const kv::Turn& turn) const {
    const kvp_kv_sequence& sequence = turn.sequence();
    column_sums_.add(turn,
                     {turn.evidence().query, turn.evidence().lse, sequence.row_begin, sequence.n_rows, turn.n_past()},
                     sums(turn));
}

void Instance::evict(const kv::Turn& turn, const Quota& quota) const {
    const int64_t n = turn.n_total();
    if (n <= quota.total()) return;
    const int64_t candidates = n - quota.recent;
    const auto n_heavy = static_cast<uint32_t>(quota.heavy);
    if (n_heavy == 0) return turn.keep_rows(0, 0, 0, candidates);
    const kv::Sums got = sums(turn);
    kv::ScoredRows scored{got.sums, got.capacity, candidates, 0, 0, n_heavy};
    if (divide_) {
        auto divide = kvp::make<kvp_pool_scores_arguments>();
        divide.scores = got.sums;
        divide.counts = got.counts;
        divide.stride = got.capacity;
        divide.pooled_stride = static_cast<uint64_t>(candidates);
        divide.pooled = turn.scratch(model_.n_kv_heads * divide.pooled_stride * sizeof(float));
        divide.n = candidates;
        divide.n_kv_heads = model_.n_kv_heads;
        divide.mode = KVP_POOL_MEAN;
        divide.width = 1;
        divide_.enqueue(turn.call(), {}, &divide);
        scored.scores = divide.pooled;
        scored.stride = divide.pooled_stride;
    }
    const kv::SelectedRows chosen = selection_.select(turn, scored);
    turn.keep_rows(chosen.index, chosen.count, n_heavy, candidates);
}

}  // namespace kvplane::h2o
