#include "eval/task_questions.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "eval/shared_texts.h"

namespace kvplane::tool {

namespace {

size_t beginning_of(const std::vector<Question>& questions, int64_t decode_last) {
    std::vector<std::span<const int32_t>> texts;
    size_t shortest = SIZE_MAX;
    for (const Question& question : questions) {
        for (const ChoiceRequest& choice : question.choices) {
            texts.emplace_back(choice.ids);
            shortest = std::min(shortest, static_cast<size_t>(prompt_of(choice, decode_last)));
        }
    }
    return common_beginning(texts, shortest - 1);  // every prompt goes on after it
}

}  // namespace

int64_t prompt_of(const ChoiceRequest& request, int64_t decode_last) {
    return std::max<int64_t>(1, request.context_tokens - decode_last);
}

Task read_task(const TaskForm& form, const std::string& name, const Tokenizer& tokenizer) {
    const std::string file = find_task_file(form.data, name);
    std::vector<TaskItem> items = read_task_items(file);
    const auto shots = static_cast<size_t>(form.shots);
    if (items.size() <= shots) {
        throw Error(ErrorKind::usage, file + ": has " + std::to_string(items.size()) + " items; --shots " +
                                          std::to_string(shots) + " leaves none to score");
    }
    const std::string before = shots_text(items, shots);
    size_t end = items.size();
    if (form.limit > 0) end = std::min(end, shots + static_cast<size_t>(form.limit));
    Task task{name, {}, 0};
    for (size_t i = shots; i < end; ++i) {
        Question question{std::move(items[i]), {}};
        for (size_t choice = 0; choice < question.item.choices.size(); ++choice) {
            question.choices.push_back(
                make_request(tokenizer, before + question.item.context(choice), question.item.choices[choice]));
        }
        task.questions.push_back(std::move(question));
    }
    task.beginning = beginning_of(task.questions, form.decode_last);
    return task;
}

}  // namespace kvplane::tool
