// What decode steps read, and what the recall meter saw: sums, so that parts of a run add up.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace kvplane::tool {

struct Usage {
    double rows_read = 0, rows_past = 0;
    double attended_bytes = 0, index_bytes = 0;
    double bytes_moved = 0, kv_bytes = 0;
    double decode_tokens = 0;  // of decode steps
    double prefill_tokens = 0, prefill_seconds = 0, decode_seconds = 0;
    RecallSums meter;
    double guard_checks = 0, guard_turned_dense = 0;  // (sequence, layer)s

    // Of everything that the engine has done so far.
    static Usage of(Engine& engine);
    Usage since(const Usage& before) const;
    void add(const Usage& other);

    nlohmann::json to_json() const;
    static Usage from_json(const nlohmann::json& json);

    double share_read() const { return ratio(rows_read, rows_past); }
    double share_moved() const { return ratio(bytes_moved, kv_bytes); }
    double bytes_per_token() const { return ratio(attended_bytes + index_bytes, decode_tokens); }
    double index_bytes_per_token() const { return ratio(index_bytes, decode_tokens); }

    // {"share_read": …, …} as reports show it; `first` is what bytes are compared with.
    nlohmann::ordered_json report(const Usage& first) const;
    // How many bytes a token are read for each that `first` reads; 0 where nothing was decoded.
    double relative_size(const Usage& first) const { return ratio(bytes_per_token(), first.bytes_per_token()); }

private:
    static double ratio(double a, double b) { return b > 0 ? a / b : 0; }
};

// The columns of a table that show it.
std::vector<std::string> usage_headings();
std::vector<std::string> usage_cells(const Usage& usage, const Usage& first);

}  // namespace kvplane::tool
