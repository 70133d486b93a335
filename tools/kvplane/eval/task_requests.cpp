#include "eval/task_requests.h"

#include <algorithm>

#include "base/error.h"

namespace kvplane::tool {

ChoiceRequest make_request(const Tokenizer& tokenizer, const std::string& context, const std::string& choice) {
    const size_t last = context.find_last_not_of(" \t\n\r\v\f");
    const std::string before = last == std::string::npos ? "" : context.substr(0, last + 1);
    const std::string whole = context + choice;
    ChoiceRequest request;
    request.ids = tokenizer.encode(whole, false);
    std::vector<int32_t> head = tokenizer.encode(before, false);
    tokenizer.begin_prompt(request.ids);
    tokenizer.begin_prompt(head);
    if (head.empty()) {
        const auto start = tokenizer.bos() ? tokenizer.bos() : tokenizer.eos();
        if (!start) throw Error(ErrorKind::usage, "an item has no context, and the model no token that begins a text");
        request.ids.insert(request.ids.begin(), *start);
        head.push_back(*start);
    }
    // Where the choice melts into the context's last token, that token is read with it.
    request.context_tokens =
        std::min<int64_t>(static_cast<int64_t>(head.size()), static_cast<int64_t>(request.ids.size()) - 1);
    return request;
}

std::string shots_text(const std::vector<TaskItem>& items, size_t shots) {
    std::string text;
    for (size_t i = 0; i < shots; ++i) text += items[i].solved() + "\n\n";
    return text;
}

}  // namespace kvplane::tool
