#include "engine/strategy_report.h"

#include <algorithm>
#include <string_view>

#include "engine/engine.h"

namespace kvplane {

namespace {

// Views of what the model computes anyway, and the stage of a layer whose last op makes them; null: attention.
struct KnownEvidence {
    uint64_t bit;
    std::string_view what;
    std::vector<Node> LayerGraph::*stage;
    std::string_view cost;
};

constexpr KnownEvidence views[] = {
    {KVP_EVIDENCE_NORMED_INPUT, "normed input", &LayerGraph::input, "none, but the ops of a layer are not fused"},
    {KVP_EVIDENCE_RESIDUAL, "residual before attention", &LayerGraph::feed_forward, "none"},
    {KVP_EVIDENCE_RESIDUAL_MID, "residual after attention", &LayerGraph::output, "none"},
    {KVP_EVIDENCE_QUERY, "query", &LayerGraph::rotate, "none"},
    {KVP_EVIDENCE_KEY, "key", &LayerGraph::rotate, "none"},
    {KVP_EVIDENCE_QUERY_BEFORE_ROPE, "query before RoPE", &LayerGraph::project, "a copy; ops are not fused"},
    {KVP_EVIDENCE_KEY_BEFORE_ROPE, "key before RoPE", &LayerGraph::project, "a copy; ops are not fused"},
    {KVP_EVIDENCE_VALUE, "value", &LayerGraph::project, "none"},
    {KVP_EVIDENCE_LSE, "log-sum-exp", nullptr, "none"},
    {KVP_EVIDENCE_OUTPUT, "attention's output", nullptr, "none"},
};

// A stage that is empty is part of a fused op.
std::string supplier(const KnownEvidence& view, const LayerGraph& layer) {
    if (view.stage == nullptr) return "kvp.attention/1";
    const std::vector<Node>& nodes = (layer.*view.stage).empty() ? layer.attention_input : layer.*view.stage;
    return nodes.back().op;
}

struct KnownOp {
    std::string_view op;
    std::string_view what;
    std::string_view cost;
};

// Ops that a strategy runs of its own (ops.h).
constexpr KnownOp ops[] = {
    {"kvp.rms_norm/1", "norm, for a guess of the query", "one row a token"},
    {"kvp.linear/1", "projection, for a guess of the query", "reads the query's weight once more at each token"},
    {"kvp.embed/1", "bias, for a guess of the query", "one row a token"},
    {"kvp.rope/1", "RoPE, for a guess of the query", "one row a token"},
    {"kvp.column_statistics/1", "sums over columns of q and k", "one pass over a prompt's q and k"},
    {"kvp.partial_index/1", "columns of partial keys", "once, at a prompt's end"},
    {"kvp.partial_keys/1", "partial keys", "one pass over a new row's key"},
    {"kvp.partial_scores/1", "scores of rows", "reads the partial keys of the rows that are searched"},
    {"kvp.page_means/1", "page means", "one pass over a new row"},
    {"kvp.select_pages/1", "scores of pages by mean and spread", "reads mean and spread of K of all pages"},
    {"kvp.page_bias/1", "weights of page means", "a pass over the pages and the rows that were chosen"},
    {"kvp.page_bounds/1", "page bounds", "one pass over a new row's key"},
    {"kvp.page_bound_scores/1", "scores of pages by bounds", "reads all page bounds at every token"},
    {"kvp.column_sums/1", "sums of probabilities, in two passes",
     "q k of the queries that count once more: half of their attention"},
    {"kvp.pool_scores/1", "scores smoothed or normalised", "a pass over the scores"},
    {"kvp.turned_rows/1", "sinks at other positions", "a pass over the sinks at every token"},
    {"kvp.select_rows/1", "the best of the scores", "a pass over the scores"},
};

double bytes_a_token(const SidecarSpec& sidecar, const PageLayout& layout) {
    if (sidecar.first_layer >= layout.layers) return 0;
    const double places = static_cast<double>(layout.layers - sidecar.first_layer) * layout.kv_heads;
    const auto bytes = static_cast<double>(sidecar.bytes);
    if (sidecar.scope == KVP_SIDECAR_TOKEN) return places * bytes;
    if (sidecar.scope == KVP_SIDECAR_PAGE) return places * bytes / layout.page_tokens;
    return 0;
}

}  // namespace

StrategyReport report_strategy(const Engine& engine) {
    const Strategy& strategy = engine.strategy();
    const PageLayout& layout = engine.kv_layout();
    StrategyReport report{strategy.summary(), std::min(strategy.dense_layers(), layout.layers), {}, {}};
    const uint32_t first = report.dense_layers == layout.layers ? 0 : report.dense_layers;
    for (const KnownEvidence& view : views) {
        if ((strategy.evidence() & view.bit) == 0) continue;
        report.evidence.push_back({first, layout.layers, std::string(view.what),
                                   supplier(view, engine.graph().layers[first]), std::string(view.cost)});
    }
    for (const std::string& op : strategy.ops()) {
        const auto known = std::find_if(std::begin(ops), std::end(ops), [&](const KnownOp& o) { return o.op == op; });
        const KnownOp found = known != std::end(ops) ? *known : KnownOp{op, "what it makes itself", "not known"};
        report.evidence.push_back({first, layout.layers, std::string(found.what), op, std::string(found.cost)});
    }
    std::string tier = engine.in_place() ? "device, then host" : "device; host too once not all fits";
    if (strategy.wants_lower_tier()) tier = "host";
    report.bytes.push_back({"K and V", tier, static_cast<double>(layout.token_bytes())});
    for (const SidecarSpec& sidecar : strategy.sidecars()) {
        const double bytes = bytes_a_token(sidecar, layout);
        if (bytes > 0) report.bytes.push_back({sidecar.name, "device, outside of the tier's budget", bytes});
    }
    return report;
}

}  // namespace kvplane
