#include "eval/texts.h"

#include <algorithm>

#include "base/error.h"

namespace kvplane::tool {

Texts::~Texts() {
    for (uint64_t text : open_) engine_.forget(text);
}

uint64_t Texts::open(int64_t max_tokens) {
    open_.push_back(engine_.open_text(max_tokens));
    return open_.back();
}

uint64_t Texts::fork(uint64_t text, int64_t max_tokens) {
    const uint64_t made = engine_.fork(text, max_tokens);
    if (made != 0) open_.push_back(made);
    return made;
}

void Texts::close(uint64_t text) {
    engine_.forget(text);
    std::erase(open_, text);
}

bool run_steps(Engine& engine) {
    while (!engine.should_stop || !engine.should_stop()) {
        if (!engine.step()) return true;
    }
    return false;
}

bool evaluate_side_by_side(Engine& engine, std::vector<WholeText> texts) {
    Texts open(engine);
    std::vector<uint64_t> numbers;
    std::vector<bool> done(texts.size(), false);
    const auto prompt_of = [&](size_t i) {
        return static_cast<size_t>(
            std::clamp<int64_t>(texts[i].prompt_tokens, 1, static_cast<int64_t>(texts[i].ids.size())));
    };
    const auto listener = [&](size_t i) {
        return [&text = texts[i], &done, i](int64_t position, std::span<float> logits) {
            text.on_logits(position, logits);
            if (position + 1 == static_cast<int64_t>(text.ids.size())) done[i] = true;
        };
    };
    for (size_t i = 0; i < texts.size(); ++i) {
        numbers.push_back(open.open(static_cast<int64_t>(texts[i].ids.size())));
        engine.feed(numbers[i], texts[i].ids.first(prompt_of(i)), Feed::prompt_end, listener(i), texts[i].first);
    }
    if (!run_steps(engine)) return false;
    for (size_t i = 0; i < texts.size(); ++i) {
        engine.feed(numbers[i], texts[i].ids.subspan(prompt_of(i)), Feed::decode, listener(i), texts[i].first);
    }
    // Texts that found no room wait until others are closed.
    for (size_t left = texts.size(); left > 0;) {
        if (!run_steps(engine)) return false;
        const size_t before = left;
        for (size_t i = 0; i < texts.size(); ++i) {
            if (!done[i] || numbers[i] == 0) continue;
            open.close(numbers[i]);
            numbers[i] = 0;
            --left;
        }
        if (left == before)
            throw Error(ErrorKind::memory, "a text finds no room in the KV tiers; raise their kv_bytes");
    }
    return true;
}

}  // namespace kvplane::tool
