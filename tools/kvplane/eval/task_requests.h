// What a model reads for one choice of an item, tokenised as the LM Evaluation Harness does it.
#pragma once

#include <string>
#include <vector>

#include "eval/task_items.h"
#include "tokenizer/tokenizer.h"

namespace kvplane::tool {

struct ChoiceRequest {
    std::vector<int32_t> ids;    // context and choice
    int64_t context_tokens = 0;  // at least 1
};

// White space at the context's end counts as the choice's. The ids are those of the whole text; the choice's are those
// after as many as the context alone has. An empty context becomes BOS, or EOS where there is none.
ChoiceRequest make_request(const Tokenizer& tokenizer, const std::string& context, const std::string& choice);

// The first `shots` items, solved, each with a blank line behind it.
std::string shots_text(const std::vector<TaskItem>& items, size_t shots);

}  // namespace kvplane::tool
