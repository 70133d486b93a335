#include "tokenizer/chat_template.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace kvplane {

namespace {

// System messages that ChatML templates put in front by themselves, by the models that do.
constexpr std::array<std::string_view, 2> known_system_messages = {
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face",  // SmolLM2
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",  // Qwen2.5
};

constexpr std::array<std::string_view, 4> roles = {"system", "user", "assistant", "tool"};

}  // namespace

ChatTemplate ChatTemplate::from_gguf(const GgufFile& file) {
    const auto source = file.find_string("tokenizer.chat_template");
    if (!source) file.fail("the model has no chat template; give a plain prompt instead of messages");
    if (source->find("<|im_start|>") == source->npos || source->find("<|im_end|>") == source->npos) {
        file.fail("the model's chat template is not supported; ChatML (<|im_start|> ... <|im_end|>) is");
    }
    ChatTemplate chat;
    for (const std::string_view message : known_system_messages) {
        if (source->find(message) != source->npos) chat.default_system_ = message;
    }
    return chat;
}

std::vector<TextSegment> ChatTemplate::render(std::span<const ChatMessage> messages, bool open_answer) const {
    if (messages.empty()) throw Error(ErrorKind::usage, "a conversation needs at least one message");
    std::vector<TextSegment> segments;
    std::string markup;  // of the template, since the last message's text
    if (!default_system_.empty() && messages.front().role != "system") {
        markup = "<|im_start|>system\n" + default_system_ + "<|im_end|>\n";
    }
    for (const ChatMessage& message : messages) {
        if (std::find(roles.begin(), roles.end(), message.role) == roles.end()) {
            throw Error(ErrorKind::usage,
                        "unknown role '" + message.role + "' of a message; known: system, user, assistant, tool");
        }
        segments.push_back({markup + "<|im_start|>" + message.role + "\n", false});
        segments.push_back({message.text, true});
        markup = "<|im_end|>\n";
    }
    segments.push_back({markup + (open_answer ? "<|im_start|>assistant\n" : ""), false});
    return segments;
}

}  // namespace kvplane
