#include "eval/task_score.h"

#include <cmath>

namespace kvplane::tool {

double Share::error() const {
    return of > 1 ? std::sqrt(value() * (1 - value()) / static_cast<double>(of - 1)) : 0;
}

void TaskScore::add(const TaskItem& item, const std::vector<ChoiceResult>& choices, size_t gold_tokens) {
    const auto normed = [&](size_t i) {
        return choices[i].log_likelihood / static_cast<double>(item.choices[i].size());
    };
    size_t best = 0, best_normed = 0;
    for (size_t i = 1; i < choices.size(); ++i) {
        if (choices[i].log_likelihood > choices[best].log_likelihood) best = i;
        if (normed(i) > normed(best_normed)) best_normed = i;
    }
    acc.add(best == item.gold);
    acc_norm.add(best_normed == item.gold);
    exact.add(choices[item.gold].greedy);
    gold_loss -= choices[item.gold].log_likelihood / static_cast<double>(gold_tokens);
}

nlohmann::ordered_json TaskScore::report() const {
    return {{"items", acc.of},
            {"acc", acc.value()},
            {"stderr", acc.error()},
            {"acc_norm", acc_norm.value()},
            {"acc_norm_stderr", acc_norm.error()},
            {"exact", exact.value()},
            {"exact_stderr", exact.error()},
            {"gold_loss", acc.of > 0 ? gold_loss / static_cast<double>(acc.of) : 0}};
}

}  // namespace kvplane::tool
