#include "eval/usage.h"

#include <utility>

#include "eval/table.h"

namespace kvplane::tool {

namespace {

// Every sum with its name in files.
constexpr std::pair<const char*, double Usage::*> sums[] = {
    {"rows_read", &Usage::rows_read},
    {"rows_past", &Usage::rows_past},
    {"attended_bytes", &Usage::attended_bytes},
    {"index_bytes", &Usage::index_bytes},
    {"bytes_moved", &Usage::bytes_moved},
    {"kv_bytes", &Usage::kv_bytes},
    {"decode_tokens", &Usage::decode_tokens},
    {"prefill_tokens", &Usage::prefill_tokens},
    {"prefill_seconds", &Usage::prefill_seconds},
    {"decode_seconds", &Usage::decode_seconds},
    {"guard_checks", &Usage::guard_checks},
    {"guard_turned_dense", &Usage::guard_turned_dense},
};
constexpr std::pair<const char*, double RecallSums::*> meter_sums[] = {{"samples", &RecallSums::samples},
                                                                       {"recall", &RecallSums::recall},
                                                                       {"mass", &RecallSums::mass},
                                                                       {"error", &RecallSums::error}};

}  // namespace

Usage Usage::of(Engine& engine) {
    const Statistics& statistics = engine.statistics();
    Usage made;
    made.rows_read = statistics.rows_read;
    made.rows_past = statistics.rows_past;
    made.attended_bytes = statistics.attended_bytes;
    made.index_bytes = statistics.index_bytes;
    made.bytes_moved = statistics.bytes_moved;
    made.kv_bytes = statistics.kv_bytes;
    made.decode_tokens = static_cast<double>(statistics.timed_decode_tokens);
    made.prefill_tokens = static_cast<double>(statistics.prefill_tokens);
    made.prefill_seconds = statistics.prefill_seconds;
    made.decode_seconds = statistics.decode_seconds;
    made.meter = engine.recall_meter().sums();
    made.guard_checks = static_cast<double>(engine.recall_meter().guard_checks());
    made.guard_turned_dense = static_cast<double>(engine.recall_meter().guard_turned_dense());
    return made;
}

Usage Usage::since(const Usage& before) const {
    Usage made = *this;
    for (const auto& [name, sum] : sums) made.*sum -= before.*sum;
    for (const auto& [name, sum] : meter_sums) made.meter.*sum -= before.meter.*sum;
    return made;
}

void Usage::add(const Usage& other) {
    for (const auto& [name, sum] : sums) this->*sum += other.*sum;
    for (const auto& [name, sum] : meter_sums) meter.*sum += other.meter.*sum;
}

nlohmann::json Usage::to_json() const {
    nlohmann::json made;
    for (const auto& [name, sum] : sums) made[name] = this->*sum;
    for (const auto& [name, sum] : meter_sums) made["meter"][name] = meter.*sum;
    return made;
}

Usage Usage::from_json(const nlohmann::json& json) {
    Usage made;
    for (const auto& [name, sum] : sums) made.*sum = json.at(name).get<double>();
    for (const auto& [name, sum] : meter_sums) made.meter.*sum = json.at("meter").at(name).get<double>();
    return made;
}

nlohmann::ordered_json Usage::report(const Usage& first) const {
    return {{"share_read", share_read()},
            {"share_moved", share_moved()},
            {"bytes_per_token", bytes_per_token()},
            {"index_bytes_per_token", index_bytes_per_token()},
            {"relative_size", relative_size(first)},
            {"recall", ratio(meter.recall, meter.samples)},
            {"kept_attention_mass", ratio(meter.mass, meter.samples)},
            {"output_error", ratio(meter.error, meter.samples)},
            {"recall_samples", meter.samples},
            {"guard_checks", guard_checks},
            {"guard_turned_dense", guard_turned_dense}};
}

std::vector<std::string> usage_headings() {
    return {"rows read", "KiB a token", "relative size", "mass kept", "output error"};
}

std::vector<std::string> usage_cells(const Usage& usage, const Usage& first) {
    if (usage.decode_tokens == 0) return {"", "", "", "", ""};
    const bool measured = usage.meter.samples > 0;
    return {fixed(100 * usage.share_read(), 1) + " %", fixed(usage.bytes_per_token() / 1024, 0),
            fixed(100 * usage.relative_size(first), 1) + " %",
            measured ? fixed(usage.meter.mass / usage.meter.samples, 3) : "",
            measured ? fixed(usage.meter.error / usage.meter.samples, 3) : ""};
}

}  // namespace kvplane::tool
