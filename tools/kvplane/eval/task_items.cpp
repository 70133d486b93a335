#include "eval/task_items.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace kvplane::tool {

namespace {

constexpr size_t most_choices = 64;

// What is wrong with it; empty: nothing, and `item` is filled.
std::string read_item(const std::string& line, TaskItem& item) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) return "this is not JSON in UTF-8";
    if (!json.is_object()) return "this is not an object";
    const auto texts = [](const nlohmann::json& list) {
        if (!list.is_array() || list.empty()) return false;
        for (const auto& text : list) {
            if (!text.is_string()) return false;
        }
        return true;
    };
    if (!json.contains("choices") || !texts(json["choices"])) return "\"choices\" must be a list of texts";
    item.choices = json["choices"].get<std::vector<std::string>>();
    if (item.choices.size() > most_choices) return "there are more than " + std::to_string(most_choices) + " choices";
    for (const std::string& choice : item.choices) {
        if (choice.empty()) return "a choice is empty";
    }
    if (json.contains("context") == json.contains("contexts"))
        return "exactly one of \"context\" and \"contexts\" must be there";
    if (json.contains("context")) {
        if (!json["context"].is_string()) return "\"context\" must be a text";
        item.contexts = {json["context"].get<std::string>()};
    } else {
        if (!texts(json["contexts"])) return "\"contexts\" must be a list of texts";
        item.contexts = json["contexts"].get<std::vector<std::string>>();
        if (item.contexts.size() != item.choices.size()) return "there must be a context for each choice";
    }
    const bool whole = json.contains("gold") && json["gold"].is_number_integer();
    const int64_t gold = whole ? json["gold"].get<int64_t>() : -1;
    if (gold < 0 || gold >= static_cast<int64_t>(item.choices.size())) {
        return "\"gold\" must be the number of a choice, from 0";
    }
    item.gold = static_cast<size_t>(gold);
    return "";
}

}  // namespace

std::string find_task_file(const std::string& folder, const std::string& name) {
    namespace fs = std::filesystem;
    if (name.empty() || name.find('/') != std::string::npos) {
        throw Error(ErrorKind::usage, "--task " + name + ": a task is the name of a file in --data, without .jsonl");
    }
    const fs::path direct = fs::path(folder) / (name + ".jsonl"), below = fs::path(folder) / "eval" / (name + ".jsonl");
    for (const fs::path& file : {direct, below}) {
        if (fs::exists(file)) return file.string();
    }
    throw Error(ErrorKind::usage,
                "--task " + name + ": there is neither " + direct.string() + " nor " + below.string());
}

std::vector<TaskItem> read_task_items(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw Error(ErrorKind::usage, file + ": cannot be read; is the path right?");
    std::vector<TaskItem> items;
    std::string line;
    for (size_t number = 1; std::getline(in, line); ++number) {
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        TaskItem item;
        item.line = number;
        const std::string wrong = read_item(line, item);
        if (!wrong.empty()) throw Error(ErrorKind::usage, file + ":" + std::to_string(number) + ": " + wrong);
        items.push_back(std::move(item));
    }
    if (in.bad() || items.empty()) throw Error(ErrorKind::usage, file + ": holds no item");
    return items;
}

}  // namespace kvplane::tool
