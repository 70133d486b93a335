// Texts that begin alike, each beginning computed once: the shots' before all questions, a question's before all its choices.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "eval/texts.h"

namespace kvplane::tool {

// Ids after a prompt of prompt_tokens are decoded; on_logits gets the scores behind each row from `first` on.
struct Branch {
    std::span<const int32_t> ids;
    int64_t prompt_tokens = 0;
    int64_t first = 0;
    Engine::OnLogits on_logits;
};

// Keeps the beginning between calls, as long as it stays the same.
class SharedTexts {
public:
    SharedTexts(Engine& engine, int64_t context) : engine_(engine), texts_(engine), context_(context) {}

    // All branches begin with `beginning`, and their prompts are longer than it. As many at once as there is room for. A
    // strategy whose sequences cannot be forked gets every branch whole. False: interrupted.
    bool evaluate(std::span<const int32_t> beginning, std::vector<Branch> branches);

private:
    struct Stem;  // branches whose prompts are equal

    bool compute_beginning(std::span<const int32_t> beginning);
    bool open_stem(Stem& stem);
    bool evaluate_whole(std::vector<Branch>& branches);

    Engine& engine_;
    Texts texts_;
    int64_t context_;
    std::vector<int32_t> beginning_;
    uint64_t beginning_text_ = 0;
    bool can_fork_ = true;
};

// How many ids all have in common at their beginning, at most `most`.
size_t common_beginning(const std::vector<std::span<const int32_t>>& texts, size_t most);

}  // namespace kvplane::tool
