// Rules that choose tokens from recorded attention weights, as an oracle would: what a strategy of that kind could reach.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trace/trace_file.h"

namespace kvplane::tool {

struct RuleSetting {
    double share = 0.1;  // of the tokens so far, forced ones included
    int64_t sinks = 4;
    int64_t recent = 32;
    int64_t page = 16;  // tokens of a page
    double alpha = 4;   // a token counts when its score is within alpha of the best
};

class Rule {
public:
    virtual ~Rule() = default;
    // [kv_head]: tokens, ascending, the newest one among them. Samples of a layer come in order.
    virtual std::vector<std::vector<int32_t>> select(const TraceSample& sample) = 0;

    static const std::vector<std::string>& names();
    static bool needs_scores(const std::string& name);
    static bool has_budget(const std::string& name);
    static std::unique_ptr<Rule> make(const std::string& name, const TraceHeader& header, const RuleSetting& setting);
};

}  // namespace kvplane::tool
