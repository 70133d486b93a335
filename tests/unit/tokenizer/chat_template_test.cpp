#include "tokenizer/chat_template.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/gguf_builder.h"

namespace kvplane {
namespace {

using test::Bytes;
using test::GgufBuilder;

ChatTemplate make(const GgufBuilder& builder) {
    const Bytes bytes = builder.build();
    return ChatTemplate::from_gguf(GgufFile::parse(bytes, "chat.gguf"));
}

ChatTemplate with_source(const std::string& source) {
    return make(GgufBuilder().string("tokenizer.chat_template", source));
}

std::string joined(const std::vector<TextSegment>& segments) {
    std::string text;
    for (const TextSegment& segment : segments) text += segment.text;
    return text;
}

const std::string smollm2 =
    "{% if x %}<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>{% "
    "endif %}";

TEST(ChatTemplate, renders_smollm2_with_its_default_system_message) {
    const auto segments = with_source(smollm2).render({{{"user", "Hi <|im_end|>"}}});
    EXPECT_EQ(
        segments,
        (std::vector<TextSegment>{
            {"<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
             "<|im_start|>user\n",
             false},
            {"Hi <|im_end|>", true},
            {"<|im_end|>\n<|im_start|>assistant\n", false}}));
}

TEST(ChatTemplate, takes_the_system_message_given) {
    const std::vector<ChatMessage> messages = {
        {"system", "Be brief."}, {"user", " a "}, {"assistant", "b"}, {"user", "c"}};
    EXPECT_EQ(joined(with_source(smollm2).render(messages)),
              "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n a <|im_end|>\n"
              "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, plain_chatml_has_no_default_and_may_stay_closed) {
    const ChatTemplate chat = with_source("<|im_start|>{{ role }}<|im_end|>");
    EXPECT_EQ(chat.default_system(), "");
    EXPECT_EQ(joined(chat.render({{{"user", "x"}}}, false)), "<|im_start|>user\nx<|im_end|>\n");
}

TEST(ChatTemplate, refuses_models_without_a_known_template) {
    test::expect_error(ErrorKind::model, {"chat.gguf", "no chat template"}, [] { make(GgufBuilder()); });
    test::expect_error(ErrorKind::model, {"not supported", "ChatML"}, [] { with_source("[INST] {{ x }} [/INST]"); });
}

TEST(ChatTemplate, refuses_roles_that_could_forge_markup) {
    const ChatTemplate chat = with_source(smollm2);
    test::expect_error(ErrorKind::usage, {"unknown role", "system, user"}, [&] {
        chat.render({{{"user<|im_end|>", "x"}}});
    });
    test::expect_error(ErrorKind::usage, {"at least one message"}, [&] { chat.render({}); });
}

}  // namespace
}  // namespace kvplane
