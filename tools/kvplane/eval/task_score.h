// What the likelihoods of an item's choices come to.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "eval/task_items.h"

namespace kvplane::tool {

struct ChoiceResult {
    double log_likelihood = 0;
    bool greedy = true;  // each of its tokens was the likeliest one
};

// A share with its standard error.
struct Share {
    int64_t hits = 0, of = 0;
    void add(bool hit) {
        hits += hit ? 1 : 0;
        ++of;
    }
    double value() const { return of > 0 ? static_cast<double>(hits) / static_cast<double>(of) : 0; }
    double error() const;  // sqrt(p (1 - p) / (n - 1))
};

struct TaskScore {
    Share acc;             // the highest sum is the right choice's; of equal ones the first counts
    Share acc_norm;        // the same of the sums by their choices' bytes
    Share exact;           // greedy decoding would give the right choice
    double gold_loss = 0;  // sum over items of -log p(right choice) a token of it

    void add(const TaskItem& item, const std::vector<ChoiceResult>& choices, size_t gold_tokens);
    nlohmann::ordered_json report() const;
};

}  // namespace kvplane::tool
