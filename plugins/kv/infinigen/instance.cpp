#include "instance.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "segments.h"

namespace kvplane::infinigen {

namespace {

Context make_context(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model) {
    Context context{&core, model, read_settings(host, model.group_tokens),
                    0,     host,  std::vector<kvp_address>(model.n_layers, 0)};
    Settings& settings = context.settings;
    if (settings.source == Source::automatic) {
        settings.source = model.reads_tiers_in_place ? Source::own_query : Source::residual_mid;
    }
    // Nobody comes before layer 0 to guess its query.
    const int64_t first = settings.source == Source::own_query ? 0 : settings.look_ahead;
    context.first_layer = static_cast<uint32_t>(std::clamp<int64_t>(settings.dense_layers, first, model.n_layers));
    return context;
}

}  // namespace

Instance::Instance(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model)
    : context_(make_context(host, core, model)),
      sidecars_(context_.settings, model, context_.first_layer),
      prompt_index_(context_),
      selection_(context_),
      speculation_(context_),
      needs_(kvp::make<kvp_kv_needs>()) {
    if (context_.settings.centroids) centroids_.emplace(context_);
    declare_needs();
}

void Instance::declare_needs() {
    const Settings& settings = context_.settings;
    needs_.evidence = KVP_EVIDENCE_QUERY | KVP_EVIDENCE_KEY;  // the column sums
    if (settings.source == Source::attn_input) needs_.evidence |= KVP_EVIDENCE_NORMED_INPUT;
    if (settings.source == Source::residual) needs_.evidence |= KVP_EVIDENCE_RESIDUAL;
    if (settings.source == Source::residual_mid) needs_.evidence |= KVP_EVIDENCE_RESIDUAL_MID;
    needs_.sidecars = sidecars_.list();
    needs_.n_sidecars = sidecars_.size();
    needs_.dense_layers = context_.first_layer;
    needs_.pool_tokens = settings.pool.limit();
    needs_.scratch_bytes = scratch_bytes();
    needs_.needs_aux = settings.skew == Skew::on;
    summary_ = summary(settings, context_.model.head_size, calibrated_ && settings.skew != Skew::off);
    needs_.summary = kvp::str(summary_);
}

uint64_t Instance::scratch_bytes() const {
    constexpr uint64_t rounding = 256;  // what an allocator may add to each piece
    const kvp_kv_model& model = context_.model;
    const uint64_t limit = context_.settings.pool.limit();
    const uint64_t n_rows = limit > 0 ? limit : model.context;
    const auto most = static_cast<uint64_t>(context_.settings.cap_count(static_cast<int64_t>(n_rows)));
    const uint64_t guess = (model.width + uint64_t{model.n_heads} * model.head_size) * sizeof(float) + 2 * rounding;
    const uint64_t scores = model.n_kv_heads * n_rows * sizeof(float) + rounding;
    // The capacity of the means may run ahead of the rows.
    const uint64_t bias = model.n_kv_heads * (2 * n_rows / model.page_tokens + 2) * sizeof(float) + rounding;
    const uint64_t pages = model.n_kv_heads * (n_rows / model.page_tokens + 2) * sizeof(int32_t) + rounding;
    const uint64_t selection = model.n_kv_heads * (most + 1) * sizeof(int32_t) + 2 * rounding;
    return guess + scores + bias + pages + (model.n_layers - context_.first_layer) * selection;
}

void Instance::calibrate(uint32_t layer, const float* query, int64_t n_rows) {
    if (!calibration_) calibration_.emplace(context_.model);
    calibration_->add(layer, query, n_rows);
}

std::vector<std::byte> Instance::save_aux() const {
    if (!calibration_) throw kvp::Failure(KVP_ERROR_INVALID, "calibration: no sample text was given");
    return encode(calibration_->finish());
}

void Instance::load_aux(std::span<const std::byte> bytes) {
    const kvp_kv_model& model = context_.model;
    const SkewMatrices matrices = decode(bytes, {model.n_layers, model.n_kv_heads, model.head_size, {}});
    if (context_.settings.skew != Skew::off) {
        for (uint32_t layer = context_.first_layer; layer < model.n_layers; layer++) {
            const auto values = matrices.layer(layer);
            kvp::check(context_.core->constant(context_.core->object, values.data(), values.size_bytes(),
                                               &context_.skew[layer]));
        }
    }
    calibrated_ = true;
    declare_needs();
}

std::unique_ptr<kvp_kv_state> Instance::open() const {
    auto state = std::make_unique<kvp_kv_state>();
    state->layers.resize(context_.model.n_layers);
    const PoolSettings& pool = context_.settings.pool;
    const uint32_t n_kv_heads = context_.model.n_kv_heads;
    for (LayerState& layer : state->layers) {
        if (pool.limit() > 0) layer.pool.emplace(pool, n_kv_heads);
        if (pool.masks) layer.published.emplace(pool, context_.settings.sinks, n_kv_heads);
    }
    return state;
}

void Instance::rewind(kvp_kv_state& state, int64_t n_cached) const {
    for (const LayerState& layer : state.layers) {
        if (n_cached < layer.prompt_end) {
            throw kvp::Failure(
                KVP_UNSUPPORTED,
                "the sums over a prompt's columns cannot be rewound: fork the text where the prompts part");
        }
    }
    for (LayerState& layer : state.layers) {
        layer.stale_page = n_cached % context_.model.page_tokens != 0;
        layer.selection.valid = false;
        if (layer.pool) layer.pool->append(n_cached, 0);
        if (layer.published) layer.published->append(n_cached, 0);
    }
}

void Instance::step_begin(kvp_kv_call* call, const kvp_kv_step& step) {
    speculation_.step_begin();
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        kvp_kv_state& state = *step.sequences[i]->state;
        state.scores = 0;
        state.pages = 0;
        state.bias = 0;
        for (LayerState& layer : state.layers) layer.selection.valid = false;
        refresh_stale_pages(call, step, i);
    }
}

// After a rewind the page that ends the cache has a mean of rows that are gone; pages are chosen by it before this step
// writes to it.
void Instance::refresh_stale_pages(kvp_kv_call* call, const kvp_kv_step& step, uint32_t sequence) {
    for (uint32_t layer = context_.first_layer; layer < context_.model.n_layers; layer++) {
        const Turn now = turn(call, step, sequence, layer);
        if (!std::exchange(now.layer_state().stale_page, false) || !centroids_) continue;
        centroids_->refresh(now, {now.n_past() / context_.model.page_tokens}, now.n_past());
    }
}

void Instance::layer_begin(kvp_kv_call* call, const kvp_kv_step& step) {
    if (context_.settings.source == Source::attn_input) speculate(call, step, *step.evidence->normed_input);
    if (context_.settings.source == Source::residual) speculate(call, step, *step.evidence->residual);
}

void Instance::ffn_begin(kvp_kv_call* call, const kvp_kv_step& step) {
    if (context_.settings.source == Source::residual_mid) speculate(call, step, *step.evidence->residual_mid);
}

void Instance::speculate(kvp_kv_call* call, const kvp_kv_step& step, const kvp_tensor& input) {
    const uint32_t next = step.layer + static_cast<uint32_t>(context_.settings.look_ahead);
    if (next < context_.first_layer || next >= context_.model.n_layers) return;
    speculation_.run(sidecars_, selection_, call, step, next, input);
}

void Instance::on_write(kvp_kv_call* call, const kvp_kv_step& step) {
    // Not when a sequence opens: a calibration run opens one too, and is only known by its first rows.
    if (context_.settings.skew == Skew::on && !calibrated_ && !calibration_) {
        throw kvp::Failure(KVP_ERROR_INVALID,
                           "kv.infinigen.skew = \"on\" needs a calibration of this model; make one with `kvplane "
                           "calibrate kv` and name it as kv.aux, or set skew to \"auto\" or \"off\"");
    }
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        const Turn now = turn(call, step, i, step.layer);
        LayerState& layer = now.layer_state();
        if (layer.pool) layer.pool->append(now.n_past(), now.sequence().n_rows);
        if (layer.published) layer.published->append(now.n_past(), now.sequence().n_rows);
        if (step.layer < context_.first_layer) continue;
        if (centroids_) centroids_->append(now);
        if (now.sequence().phase == KVP_PHASE_PREFILL) {
            prompt_index_.accumulate(now);
        } else if (layer.indexed) {
            prompt_index_.append(now);
        }
    }
}

void Instance::prefill_end(kvp_kv_call* call, const kvp_kv_step& step, uint32_t sequence) {
    if (step.layer >= context_.first_layer) prompt_index_.build(turn(call, step, sequence, step.layer));
}

void Instance::attn_plan(kvp_kv_call* call, const kvp_kv_step& step) {
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        const Turn now = turn(call, step, i, step.layer);
        if (context_.settings.source == Source::own_query && now.selects()) {
            selection_.select(now, step.evidence->query, now.sequence().row_begin);
        }
        add_segments(context_, now, centroids_ ? &*centroids_ : nullptr);
    }
}

void Instance::evict(const kvp_kv_step& step, const kvp_kv_eviction& eviction) const {
    const kvp_kv_state& state = *step.sequences[eviction.sequence]->state;
    const auto& pool = state.layers[eviction.layer].pool;
    const int64_t first_free = context_.settings.pool.protect_sinks ? context_.settings.sinks : 0;
    const int64_t begin = std::max(eviction.candidates_begin, first_free);
    if (!pool || !pool->choose(begin, eviction.candidates_end, eviction.n_rows, eviction.victims)) {
        throw kvp::Failure(KVP_ERROR_INVALID,
                           "kv.infinigen: " + std::to_string(eviction.n_rows) + " rows must leave the pool, only " +
                               std::to_string(std::max<int64_t>(0, eviction.candidates_end - begin)) +
                               " may; raise pool_tokens or lower sinks");
    }
}

void Instance::rows_replaced(kvp_kv_call* call, const kvp_kv_step& step, const kvp_kv_eviction& eviction) {
    const Turn now = turn(call, step, eviction.sequence, eviction.layer);
    LayerState& layer = now.layer_state();
    const int64_t moved = eviction.candidates_end;
    if (!layer.pool || moved + eviction.n_rows > layer.pool->n_rows()) {
        throw kvp::Failure(KVP_ERROR_INTERNAL, "kv.infinigen: rows were replaced that are not in the pool");
    }
    layer.pool->replace(moved, eviction.n_rows, eviction.victims);
    layer.selection.valid = false;  // its row numbers are old
    layer.prompt_end = std::min(layer.prompt_end, layer.pool->n_rows());
    if (eviction.layer < context_.first_layer) return;
    const int64_t page_tokens = context_.model.page_tokens;
    const int64_t n_rows = layer.pool->n_rows();
    std::vector<int64_t> pages;  // those with victims, and those that the moved page's going has renumbered
    if (page_tokens >= Sidecars::tile_rows) {
        for (uint32_t i = 0; i < eviction.n_kv_heads * eviction.n_rows; i++) {
            pages.push_back(eviction.victims[i] / page_tokens);
        }
    } else {  // tiles of partial keys reach over pages: all of them
        pages.resize(static_cast<size_t>(moved / page_tokens));
        std::iota(pages.begin(), pages.end(), int64_t{0});
    }
    for (int64_t page = moved / page_tokens; page * page_tokens < n_rows; page++) pages.push_back(page);
    std::sort(pages.begin(), pages.end());
    pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
    if (centroids_) centroids_->refresh(now, pages, n_rows);
    if (layer.indexed) prompt_index_.refresh(now, pages, n_rows);
}

void Instance::selected(kvp_kv_state& state, uint32_t layer, const int32_t* index, const int32_t* counts,
                        uint64_t stride) const {
    LayerState& mine = state.layers.at(layer);
    if (mine.pool) mine.pool->use(index, counts, stride, context_.settings.sinks);
    if (mine.published) mine.published->use(index, counts, stride);
}

}  // namespace kvplane::infinigen
