#include "bench/profile.h"

#include <iomanip>
#include <sstream>

namespace kvplane::tool {

namespace {

using json = nlohmann::ordered_json;

std::string fixed(double value, int digits) {
    std::ostringstream text;
    text << std::fixed << std::setprecision(digits) << value;
    return text.str();
}

json share(double rate, double ceiling) {
    return ceiling > 0 ? json(rate / ceiling) : json(nullptr);
}

std::string percent(const json& value) {
    return value.is_null() ? "" : fixed(value.get<double>() * 100, 1) + " %";
}

}  // namespace

json profile_report(const OpProfile& profile, double seconds, double tokens, const Ceilings& ceilings) {
    json ops = json::array();
    double in_ops = 0;
    for (const OpCalls& kind : profile.calls()) {
        in_ops += kind.seconds;
        const double peak = kind.quantised ? ceilings.compute.int8 : ceilings.compute.f32;
        ops.push_back({{"op", kind.op},
                       {"constants", kind.constants},
                       {"calls", kind.calls},
                       {"seconds", kind.seconds},
                       {"microseconds_per_token", kind.seconds / tokens * 1e6},
                       {"share_of_time", kind.seconds / seconds},
                       {"bytes_per_token", kind.bytes / tokens},
                       {"operations_per_token", kind.flops / tokens},
                       {"bytes_per_second", kind.bytes / kind.seconds},
                       {"operations_per_second", kind.flops / kind.seconds},
                       {"share_of_read_limit", share(kind.bytes / kind.seconds, ceilings.read_limit)},
                       {"compute_type", kind.quantised ? "int8" : "f32"},
                       {"share_of_compute_peak", share(kind.flops / kind.seconds, peak)}});
    }
    const double between = seconds - in_ops;
    return {{"tokens", tokens},
            {"seconds", seconds},
            {"read_limit_bytes_per_second", ceilings.read_limit},
            {"int8_operations_per_second", ceilings.compute.int8},
            {"f32_operations_per_second", ceilings.compute.f32},
            {"ops", ops},
            {"between_ops",
             {{"seconds", between},
              {"microseconds_per_token", between / tokens * 1e6},
              {"share_of_time", between / seconds}}}};
}

std::string profile_table(const std::string& title, const json& report) {
    const auto number = [](const json& row, const char* key, double factor, int digits) {
        return fixed(row.at(key).get<double>() * factor, digits);
    };
    std::ostringstream out;
    out << "\n"
        << title << ": " << number(report, "seconds", 1e3, 1) << " ms for " << number(report, "tokens", 1, 0)
        << " tokens; ceilings: read " << number(report, "read_limit_bytes_per_second", 1e-9, 1) << " GB/s, int8 "
        << number(report, "int8_operations_per_second", 1e-9, 0) << " Gop/s, f32 "
        << number(report, "f32_operations_per_second", 1e-9, 0) << " Gop/s\n\n"
        << "| op | constants | calls | µs a token | of the time | kB a token | GB/s | of the read limit | Mop a token"
           " | Gop/s | of the peak |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
    for (const json& row : report.at("ops")) {
        out << "| " << row.at("op").get<std::string>() << " | " << row.at("constants").get<std::string>() << " | "
            << row.at("calls") << " | " << number(row, "microseconds_per_token", 1, 1) << " | "
            << percent(row.at("share_of_time")) << " | " << number(row, "bytes_per_token", 1e-3, 1) << " | "
            << number(row, "bytes_per_second", 1e-9, 1) << " | " << percent(row.at("share_of_read_limit")) << " | "
            << number(row, "operations_per_token", 1e-6, 2) << " | " << number(row, "operations_per_second", 1e-9, 1)
            << " | " << percent(row.at("share_of_compute_peak")) << " " << row.at("compute_type").get<std::string>()
            << " |\n";
    }
    const json& between = report.at("between_ops");
    out << "| between the ops | | | " << number(between, "microseconds_per_token", 1, 1) << " | "
        << percent(between.at("share_of_time")) << " | | | | | | |\n";
    return out.str();
}

}  // namespace kvplane::tool
