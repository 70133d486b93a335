// The questions of a task's file as token ids: solved items in front, one text a choice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/task_items.h"
#include "eval/task_requests.h"
#include "tokenizer/tokenizer.h"

namespace kvplane::tool {

// How items become questions.
struct TaskForm {
    std::string data;         // folder of the files
    int64_t shots = 0;        // solved items before each, the first of the file
    int64_t limit = 0;        // items after the shots; 0: all
    int64_t decode_last = 1;  // last tokens of the context that are decoded, as those of the choice are
};

struct Question {
    TaskItem item;
    std::vector<ChoiceRequest> choices;
};

struct Task {
    std::string name;
    std::vector<Question> questions;
    size_t beginning = 0;  // how many ids all prompts begin with
};

// Tokens of the prompt, which is read in full.
int64_t prompt_of(const ChoiceRequest& request, int64_t decode_last);

// Throws Error(usage): no such file, or fewer items than shots.
Task read_task(const TaskForm& form, const std::string& name, const Tokenizer& tokenizer);

}  // namespace kvplane::tool
