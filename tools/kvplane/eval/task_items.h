// Multiple-choice items from a file of JSON Lines:
//
//     {"id": 7, "context": "Question: …\nAnswer:", "choices": [" yes", " no"], "gold": 0}
//
// or with "contexts", one for each choice, in place of "context". The file is not trusted.
#pragma once

#include <string>
#include <vector>

namespace kvplane::tool {

struct TaskItem {
    std::vector<std::string> contexts;  // one, or one for each choice
    std::vector<std::string> choices;
    size_t gold = 0;
    size_t line = 0;  // of the file, from 1

    const std::string& context(size_t choice) const { return contexts.size() == 1 ? contexts[0] : contexts[choice]; }
    // Context and right choice, as a shot shows them.
    std::string solved() const { return context(gold) + choices[gold]; }
};

// FOLDER/NAME.jsonl, or FOLDER/eval/NAME.jsonl. Throws Error(usage) that says where they were looked for.
std::string find_task_file(const std::string& folder, const std::string& name);

// Throws Error(usage) with file and line for what is no item, and for a file without any.
std::vector<TaskItem> read_task_items(const std::string& file);

}  // namespace kvplane::tool
