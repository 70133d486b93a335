#include "eval/shared_texts.h"

#include <algorithm>

#include "base/error.h"

namespace kvplane::tool {

struct SharedTexts::Stem {
    std::span<const int32_t> prompt;
    std::vector<Branch*> branches;
    int64_t longest = 0;
    std::vector<uint64_t> texts;  // the first is the one that read the prompt
    // Scores behind prompt rows that a branch wants, until it is sure that the stem stays.
    std::vector<std::pair<int64_t, std::vector<float>>> kept;
};

size_t common_beginning(const std::vector<std::span<const int32_t>>& texts, size_t most) {
    for (const auto& text : texts) {
        const auto [differs, other] =
            std::mismatch(text.begin(), text.end(), texts.front().begin(), texts.front().end());
        most = std::min(most, static_cast<size_t>(differs - text.begin()));
    }
    return texts.empty() ? 0 : most;
}

bool SharedTexts::compute_beginning(std::span<const int32_t> beginning) {
    if (beginning_text_ != 0 && std::equal(beginning.begin(), beginning.end(), beginning_.begin(), beginning_.end())) {
        return true;
    }
    if (beginning_text_ != 0) texts_.close(beginning_text_);
    beginning_.assign(beginning.begin(), beginning.end());
    beginning_text_ = texts_.open(context_);
    if (!beginning.empty()) engine_.feed(beginning_text_, beginning, Feed::prompt_part);
    return run_steps(engine_);
}

// False: no room for all its branches now.
bool SharedTexts::open_stem(Stem& stem) {
    const uint64_t first = texts_.fork(beginning_text_, stem.longest);
    if (first == 0) return false;
    stem.texts = {first};
    const auto keep = [&stem](int64_t position, std::span<float> logits) {
        stem.kept.emplace_back(position, std::vector<float>(logits.begin(), logits.end()));
    };
    engine_.feed(first, stem.prompt.subspan(beginning_.size()), Feed::prompt_end, keep, stem.branches.front()->first);
    return true;
}

bool SharedTexts::evaluate_whole(std::vector<Branch>& branches) {
    std::vector<WholeText> whole;
    for (Branch& branch : branches) whole.push_back({branch.ids, branch.prompt_tokens, branch.first, branch.on_logits});
    return evaluate_side_by_side(engine_, std::move(whole));
}

bool SharedTexts::evaluate(std::span<const int32_t> beginning, std::vector<Branch> branches) {
    if (!can_fork_) return evaluate_whole(branches);
    if (!compute_beginning(beginning)) return false;
    std::vector<Stem> stems;
    for (Branch& branch : branches) {
        const auto prompt = branch.ids.first(static_cast<size_t>(branch.prompt_tokens));
        const auto same = std::find_if(stems.begin(), stems.end(), [&](const Stem& stem) {
            return std::equal(prompt.begin(), prompt.end(), stem.prompt.begin(), stem.prompt.end()) &&
                   stem.branches.front()->first == branch.first;
        });
        Stem& stem = same != stems.end() ? *same : stems.emplace_back();
        stem.prompt = prompt;
        stem.branches.push_back(&branch);
        stem.longest = std::max(stem.longest, static_cast<int64_t>(branch.ids.size()));
    }
    for (size_t next = 0; next < stems.size();) {
        const size_t begin = next;
        try {
            while (next < stems.size() && open_stem(stems[next])) ++next;
        } catch (const Error& error) {
            if (error.kind() != ErrorKind::plugin || next != 0) throw;
            can_fork_ = false;
            texts_.close(beginning_text_);
            beginning_text_ = 0;
            return evaluate_whole(branches);
        }
        if (!run_steps(engine_)) return false;
        // Room for the branches comes first from stems that wait: they are opened again in the next round.
        for (size_t i = begin; i < next; ++i) {
            Stem& stem = stems[i];
            while (stem.texts.size() < stem.branches.size()) {
                const uint64_t made = texts_.fork(stem.texts.front(), stem.longest);
                if (made != 0) {
                    stem.texts.push_back(made);
                    continue;
                }
                if (next - 1 == i) break;
                for (uint64_t text : stems[--next].texts) texts_.close(text);
                stems[next].texts.clear();
                stems[next].kept.clear();
            }
        }
        const bool fits = next > begin && stems[begin].texts.size() == stems[begin].branches.size();
        if (!fits) {
            throw Error(ErrorKind::memory,
                        "a question with its choices finds no room in the KV tiers; raise their kv_bytes");
        }
        for (size_t i = begin; i < next; ++i) {
            for (size_t n = 0; n < stems[i].branches.size(); ++n) {
                Branch& branch = *stems[i].branches[n];
                for (auto& [position, logits] : stems[i].kept) branch.on_logits(position, logits);
                engine_.feed(stems[i].texts[n], branch.ids.subspan(stems[i].prompt.size()), Feed::decode,
                             branch.on_logits, branch.first);
            }
        }
        if (!run_steps(engine_)) return false;
        for (size_t i = begin; i < next; ++i) {
            for (uint64_t text : stems[i].texts) texts_.close(text);
        }
    }
    return true;
}

}  // namespace kvplane::tool
