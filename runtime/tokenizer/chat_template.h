// Renders a conversation as the model was trained to see it. The template of a model file is a program in a language of
// its own; it is recognised, never run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/gguf.h"
#include "tokenizer/tokenizer.h"

namespace kvplane {

struct ChatMessage {
    std::string role;  // system, user, assistant or tool
    std::string text;
};

// ChatML: <|im_start|>ROLE\nTEXT<|im_end|>\n for each message.
class ChatTemplate {
public:
    // Throws Error(model) if the file has no template, or one that is not known.
    static ChatTemplate from_gguf(const GgufFile& file);

    // With `open_answer` the prompt ends with the header of the assistant's answer. Texts of messages are marked as the
    // user's, whoever wrote them. Throws Error(usage) for no messages or an unknown role.
    std::vector<TextSegment> render(std::span<const ChatMessage> messages, bool open_answer = true) const;

    // Said before the first message unless that is a system message; may be empty.
    const std::string& default_system() const noexcept { return default_system_; }

private:
    std::string default_system_;
};

}  // namespace kvplane
