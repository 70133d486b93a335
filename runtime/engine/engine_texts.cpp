// Texts whose tokens the caller gives, and texts that begin as others do.
#include <algorithm>

#include "base/error.h"
#include "engine/engine.h"

namespace kvplane {

const Engine::OnLogits* Engine::Running::listener(int64_t position) const {
    for (const Feeding& feeding : feedings) {
        if (position >= feeding.begin && position < feeding.end) return &feeding.on_logits;
    }
    return nullptr;
}

bool Engine::wants_logits(const Running& running, int64_t position) const {
    return running.fed ? running.listener(position) != nullptr : position >= running.text.prompt_tokens - 1;
}

uint64_t Engine::open_text(int64_t max_tokens) {
    if (max_tokens < 1 || max_tokens > context_) {
        throw Error(ErrorKind::usage, "a text of " + std::to_string(max_tokens) + " tokens: the context holds 1 to " +
                                          std::to_string(context_) + "; raise model.context");
    }
    Running running{};
    running.fed = true;
    running.most_tokens = max_tokens;
    running.text.prompt_goes_on = true;
    const uint64_t id = add(std::move(running));
    try {
        admit();
    } catch (...) {
        forget(id);
        throw;
    }
    return id;
}

void Engine::feed(uint64_t id, std::span<const int32_t> tokens, Feed how, OnLogits on_logits, int64_t first) {
    Running& running = find(id);
    RunningText& text = running.text;
    if (!running.fed) throw Error(ErrorKind::usage, "request " + std::to_string(id) + " makes its tokens itself");
    const auto begin = static_cast<int64_t>(text.tokens.size());
    const int64_t end = begin + static_cast<int64_t>(tokens.size());
    if (end > running.most_tokens) {
        throw Error(ErrorKind::usage, "text " + std::to_string(id) + " has room for " +
                                          std::to_string(running.most_tokens) + " tokens, not for " +
                                          std::to_string(end));
    }
    check_tokens(tokens);
    if (how == Feed::decode && text.prompt_goes_on && !tokens.empty()) {
        throw Error(ErrorKind::usage, "text " + std::to_string(id) + " decodes before its prompt has ended");
    }
    if (how != Feed::decode) {
        if (!text.prompt_goes_on) {
            throw Error(ErrorKind::usage, "the prompt of text " + std::to_string(id) + " has ended");
        }
        if (how == Feed::prompt_end && tokens.empty()) {
            throw Error(ErrorKind::usage, "the end of a prompt needs at least one token");
        }
        text.prompt_tokens = end;
        text.prompt_goes_on = how == Feed::prompt_part;
    }
    text.tokens.insert(text.tokens.end(), tokens.begin(), tokens.end());
    std::erase_if(running.feedings, [&](const Feeding& feeding) { return feeding.end <= text.n_computed; });
    if (on_logits) running.feedings.push_back({std::max(begin, first), end, std::move(on_logits)});
}

uint64_t Engine::fork(uint64_t text, int64_t max_tokens) {
    Running made{};
    made.fed = true;
    made.most_tokens = max_tokens;
    return add_fork(text, std::move(made), {});
}

uint64_t Engine::fork(uint64_t text, GenerationRequest request) {
    Running made{};
    made.sampler.emplace(request.sampler);
    const auto n_given = static_cast<int64_t>(find(text).text.tokens.size() + request.prompt.size());
    made.most_tokens = std::max(n_given, std::min(context_, n_given + request.max_tokens));
    const std::vector<int32_t> more = std::move(request.prompt);
    made.request = std::move(request);
    return add_fork(text, std::move(made), more);
}

uint64_t Engine::add_fork(uint64_t id, Running made, std::span<const int32_t> more) {
    Running& parent = find(id);
    if (parent.cache == nullptr) {
        throw Error(ErrorKind::usage, "text " + std::to_string(id) + " has no cache that could be forked");
    }
    made.text = parent.text;
    made.text.finished = false;
    RunningText& text = made.text;
    check_tokens(more);
    if (!made.fed) {
        // What is sampled first follows a token that is computed in the new text.
        if (!more.empty() && !text.prompt_goes_on) {
            throw Error(ErrorKind::usage, "the prompt of text " + std::to_string(id) + " has ended");
        }
        text.tokens.insert(text.tokens.end(), more.begin(), more.end());
        if (text.prompt_goes_on) text.prompt_tokens = static_cast<int64_t>(text.tokens.size());
        text.prompt_goes_on = false;
        if (text.n_computed == static_cast<int64_t>(text.tokens.size())) {
            throw Error(ErrorKind::usage, "a fork that samples needs a token that is not computed yet: give one");
        }
    }
    if (static_cast<int64_t>(text.tokens.size()) > made.most_tokens) {
        throw Error(ErrorKind::usage, "text " + std::to_string(id) + " has " + std::to_string(text.tokens.size()) +
                                          " tokens, more than its fork has room for");
    }
    const auto open =
        std::count_if(running_.begin(), running_.end(), [](const Running& r) { return r.cache != nullptr; });
    if (open >= max_sequences_) return 0;
    SequenceCache* cache =
        store_->fork(*parent.cache, last_id_ + 1, static_cast<uint64_t>(std::min(made.most_tokens, pool_rows())));
    if (cache == nullptr) return 0;
    made.cache = cache;
    try {
        made.state = strategy_->fork_sequence(parent.state, last_id_ + 1);
        try {
            const uint64_t forked = add(std::move(made));
            runner_->recall_meter().fork(id, forked);
            return forked;
        } catch (...) {
            strategy_->close_sequence(made.state);
            throw;
        }
    } catch (...) {
        store_->close(cache);
        throw;
    }
}

void Engine::rewind(uint64_t id, int64_t n_tokens) {
    Running& running = find(id);
    RunningText& text = running.text;
    if (n_tokens < 0 || n_tokens > static_cast<int64_t>(text.tokens.size())) {
        throw Error(ErrorKind::usage, "text " + std::to_string(id) + " has " + std::to_string(text.tokens.size()) +
                                          " tokens and cannot be rewound to " + std::to_string(n_tokens));
    }
    if (!running.fed) throw Error(ErrorKind::usage, "request " + std::to_string(id) + " makes its tokens itself");
    if (running.cache != nullptr && n_tokens < text.n_computed) {
        SequenceCache& cache = *running.cache;
        const int64_t n_rows = cache.n_cached - (text.n_computed - n_tokens);
        if (n_rows < cache.fixed_rows) {
            throw Error(ErrorKind::usage, "text " + std::to_string(id) + " cannot be rewound to " +
                                              std::to_string(n_tokens) + " tokens: rows have left its cache since");
        }
        if (!store_->can_rewind(cache, n_rows)) {
            throw Error(ErrorKind::memory, "there is no room to rewind text " + std::to_string(id) +
                                               ": others share its rows; forget some texts, or raise "
                                               "tiers.device.kv_bytes or tiers.host.kv_bytes");
        }
        strategy_->rewind_sequence(running.state, n_rows);
        store_->rewind(cache, n_rows);
        runner_->recall_meter().rewind(id, n_tokens);
        text.n_computed = n_tokens;
    }
    text.tokens.resize(static_cast<size_t>(n_tokens));
    std::erase_if(running.feedings, [&](Feeding& feeding) {
        feeding.end = std::min(feeding.end, n_tokens);
        return feeding.begin >= feeding.end;
    });
    if (n_tokens < text.prompt_tokens) {
        text.prompt_tokens = n_tokens;
        text.prompt_goes_on = true;
    }
}

}  // namespace kvplane
