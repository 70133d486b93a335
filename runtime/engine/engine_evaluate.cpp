// Texts that are given whole: what quality is measured with.
#include <algorithm>

#include "engine/engine.h"

namespace kvplane {

void Engine::evaluate(const std::vector<int32_t>& ids, int64_t prompt_tokens, int64_t first,
                      const OnLogits& on_logits) {
    evaluate(std::vector<Evaluation>{{ids, prompt_tokens, first, on_logits}});
}

void Engine::evaluate(std::vector<Evaluation> batch) {
    std::vector<uint64_t> ids;
    const auto forget_all = [&] {
        for (uint64_t id : ids) forget(id);
    };
    try {
        for (Evaluation& one : batch) {
            Running running{};
            const auto n_tokens = static_cast<int64_t>(one.ids.size());
            running.text.tokens = std::move(one.ids);
            running.text.prompt_tokens = std::clamp<int64_t>(one.prompt_tokens, 1, std::max<int64_t>(1, n_tokens));
            running.forced = true;
            running.first_logits = one.first;
            running.on_logits = std::move(one.on_logits);
            ids.push_back(add(std::move(running)));
        }
        while (!(should_stop && should_stop()) && step(true)) {
        }
    } catch (...) {
        forget_all();
        throw;
    }
    forget_all();
}

}  // namespace kvplane
