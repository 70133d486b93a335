// The real SmolLM2 vocabulary; runs where the environment variable KVPLANE_DEMO_MODEL holds the path of the demo model.
#include <gtest/gtest.h>

#include <cstdlib>

#include "model/model.h"
#include "support/golden.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace kvplane {
namespace {

using Ids = std::vector<int32_t>;

class DemoModel : public ::testing::Test {
protected:
    void SetUp() override {
        const char* path = std::getenv("KVPLANE_DEMO_MODEL");
        if (!path) GTEST_SKIP() << "KVPLANE_DEMO_MODEL is not set";
        model_ = Model::open(path);
        tokenizer_ = Tokenizer::from_gguf(model_->file());
    }
    std::unique_ptr<Model> model_;
    std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(DemoModel, has_the_shape_that_its_authors_state) {
    const ModelShape& shape = model_->shape();
    EXPECT_EQ(shape.layers, 30u);
    EXPECT_EQ(shape.width, 576u);
    EXPECT_EQ(shape.feed_forward_width, 1536u);
    EXPECT_EQ(shape.heads, 9u);
    EXPECT_EQ(shape.kv_heads, 3u);
    EXPECT_EQ(shape.head_size, 64u);
    EXPECT_EQ(shape.vocabulary, 49152u);
    EXPECT_EQ(shape.context_length, 8192u);
    EXPECT_EQ(shape.rope.base, 100000.0f);
    EXPECT_TRUE(shape.tied_output);
    EXPECT_TRUE(model_->warnings().empty());
    EXPECT_EQ(model_->tensor("token_embd.weight").type, TensorType::q8_0);
}

// Golden values: tests/reference/make_tokenizer_golden.py, from the packages tokenizers and jinja2.
TEST_F(DemoModel, gives_the_ids_of_the_reference) {
    const auto golden = test::read_golden("smollm2.json");
    for (const auto& expected : golden["cases"]) {
        EXPECT_EQ(tokenizer_->encode(expected["text"].get<std::string>(), false), expected["ids"].get<Ids>())
            << expected["text"].dump();
    }
}

TEST_F(DemoModel, renders_conversations_as_its_own_template_does) {
    const ChatTemplate chat = ChatTemplate::from_gguf(model_->file());
    const auto golden = test::read_golden("smollm2.json");
    for (const auto& expected : golden["conversations"]) {
        std::vector<ChatMessage> messages;
        for (const auto& message : expected["messages"]) messages.push_back({message[0], message[1]});
        const auto segments = chat.render(messages);
        std::string text;
        for (const TextSegment& segment : segments) text += segment.text;
        EXPECT_EQ(text, expected["text"].get<std::string>());
        EXPECT_EQ(tokenizer_->encode(segments), expected["ids"].get<Ids>());
    }
}

TEST_F(DemoModel, ends_answers_with_either_end_token) {
    EXPECT_TRUE(tokenizer_->is_end_of_generation(2));  // <|im_end|>
    EXPECT_TRUE(tokenizer_->is_end_of_generation(0));  // <|endoftext|>
    EXPECT_FALSE(tokenizer_->is_end_of_generation(1));
    EXPECT_FALSE(tokenizer_->adds_bos());
}

}  // namespace
}  // namespace kvplane
