#include "engine/strategy_report.h"

#include <algorithm>
#include <string_view>

#include "engine/engine.h"

namespace kvplane {

namespace {

struct KnownEvidence {
    uint64_t bit;
    std::string_view what;
    std::string_view op;
    std::string_view cost;
};

// Views of what the model computes anyway.
constexpr KnownEvidence views[] = {
    {KVP_EVIDENCE_NORMED_INPUT, "normed input", "kvp.rms_norm/1", "none, but the ops of a layer are not fused"},
    {KVP_EVIDENCE_RESIDUAL, "residual before attention", "the layer before", "none"},
    {KVP_EVIDENCE_RESIDUAL_MID, "residual after attention", "the layer's output projection", "none"},
    {KVP_EVIDENCE_QUERY, "query", "kvp.attention_input/1 or kvp.rope/1", "none"},
    {KVP_EVIDENCE_KEY, "key", "kvp.attention_input/1 or kvp.rope/1", "none"},
    {KVP_EVIDENCE_QUERY_BEFORE_ROPE, "query before RoPE", "kvp.linear/1", "a copy; ops are not fused"},
    {KVP_EVIDENCE_KEY_BEFORE_ROPE, "key before RoPE", "kvp.linear/1", "a copy; ops are not fused"},
    {KVP_EVIDENCE_VALUE, "value", "kvp.linear/1", "none"},
    {KVP_EVIDENCE_LSE, "log-sum-exp", "kvp.attention/1", "none"},
    {KVP_EVIDENCE_OUTPUT, "attention's output", "kvp.attention/1", "none"},
};

struct KnownOp {
    std::string_view op;
    std::string_view what;
    std::string_view cost;
};

// Ops of strategies (ops.h). d: head size.
constexpr KnownOp ops[] = {
    {"kvp.column_statistics/1", "sums over columns of q and k", "one pass over a prompt's q and k"},
    {"kvp.partial_keys/1", "partial keys", "one pass over a new row's key"},
    {"kvp.partial_scores/1", "scores of rows", "reads the partial keys of the rows that are searched"},
    {"kvp.page_means/1", "page means", "one pass over a new row"},
    {"kvp.select_pages/1", "scores of pages by mean and spread", "reads 12 d bytes a page and KV head"},
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
        report.evidence.push_back(
            {first, layout.layers, std::string(view.what), std::string(view.op), std::string(view.cost)});
    }
    for (const std::string& op : strategy.ops()) {
        const auto known = std::find_if(std::begin(ops), std::end(ops), [&](const KnownOp& o) { return o.op == op; });
        if (known == std::end(ops)) continue;
        report.evidence.push_back({first, layout.layers, std::string(known->what), op, std::string(known->cost)});
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
