// One prompt answered by a session, as text that streams.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/session.h"

namespace kvplane {

struct Prompt {
    std::string text;
    bool chat = false;                        // the text is a user's message: it goes into the model's chat template
    std::optional<std::vector<int32_t>> ids;  // instead of the text
};

struct AnswerOptions {
    int64_t max_tokens = 128;
    bool ignore_end = false;  // go on after the model ends its answer
    // Gets text as it comes, whole UTF-8 characters; false cancels.
    std::function<bool(const std::string& piece)> on_text;
    // Asked before each step; false cancels.
    std::function<bool()> go_on;
};

struct Answer {
    size_t prompt_tokens = 0;
    std::vector<int32_t> tokens;  // new ones, without the one that ended the answer
    std::string text;             // of the tokens, without control tokens
    FinishReason reason = FinishReason::running;
};

// Raw text is taken with its special tokens, a user's message literally. The pipeline's [sample] says how tokens are
// drawn. Throws Error(usage) for a prompt that is empty or longer than the context.
Answer answer(Session& session, const Prompt& prompt, const AnswerOptions& options);

}  // namespace kvplane
