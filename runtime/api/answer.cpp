#include "api/answer.h"

#include "tokenizer/chat_template.h"
#include "tokenizer/utf8_stream.h"

namespace kvplane {

namespace {

std::vector<int32_t> prompt_ids(const Prompt& prompt, const Session& session) {
    if (prompt.ids) return *prompt.ids;
    const Tokenizer& tokenizer = *session.tokenizer;
    std::vector<int32_t> ids;
    if (prompt.chat) {
        const ChatMessage message{"user", prompt.text};
        ids = tokenizer.encode(ChatTemplate::from_gguf(session.model->file()).render({&message, 1}));
    } else {
        ids = tokenizer.encode(prompt.text, true);
    }
    tokenizer.begin_prompt(ids);
    return ids;
}

SamplerOptions sampler_options(const Pipeline& pipeline) {
    SamplerOptions options;
    options.temperature = pipeline.real("sample.temperature");
    options.top_k = pipeline.integer("sample.top_k");
    options.top_p = pipeline.real("sample.top_p");
    options.min_p = pipeline.real("sample.min_p");
    options.repeat_penalty = pipeline.real("sample.repeat_penalty");
    options.presence_penalty = pipeline.real("sample.presence_penalty");
    options.frequency_penalty = pipeline.real("sample.frequency_penalty");
    options.repeat_window = pipeline.integer("sample.repeat_window");
    options.seed = static_cast<uint64_t>(pipeline.integer("sample.seed"));
    return options;
}

// A request that leaves the engine on every way out of here: its callback points into the caller's frame.
class Submitted {
public:
    Submitted(Engine& engine, GenerationRequest request) : engine_(engine), id_(engine.submit(std::move(request))) {}
    ~Submitted() { engine_.forget(id_); }
    Submitted(const Submitted&) = delete;
    Submitted& operator=(const Submitted&) = delete;
    uint64_t id() const { return id_; }

private:
    Engine& engine_;
    uint64_t id_;
};

}  // namespace

Answer answer(Session& session, const Prompt& prompt, const AnswerOptions& options) {
    Engine& engine = *session.engine;
    const Tokenizer& tokenizer = *session.tokenizer;
    Answer made;
    Utf8Stream stream;
    const auto emit = [&](const std::string& piece) {
        made.text += piece;
        return piece.empty() || !options.on_text || options.on_text(piece);
    };

    GenerationRequest request;
    request.prompt = prompt_ids(prompt, session);
    request.max_tokens = options.max_tokens;
    request.sampler = sampler_options(session.pipeline);
    for (int32_t id = 0; !options.ignore_end && id < tokenizer.vocabulary_size(); ++id) {
        if (tokenizer.is_end_of_generation(id)) request.stop_tokens.push_back(id);
    }
    request.on_token = [&](int32_t token) {
        return tokenizer.is_control(token) || emit(stream.push(tokenizer.piece(token)));
    };
    made.prompt_tokens = request.prompt.size();

    const Submitted submitted(engine, std::move(request));
    const auto may_go_on = [&] { return !options.go_on || options.go_on(); };
    while (may_go_on() && engine.step()) {
    }
    engine.cancel(submitted.id());  // of no effect on one that is finished
    emit(stream.finish());
    const std::vector<int32_t>& tokens = engine.tokens(submitted.id());
    made.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(made.prompt_tokens), tokens.end());
    made.reason = engine.finish_reason(submitted.id());
    if (made.reason == FinishReason::stop) made.tokens.pop_back();
    return made;
}

}  // namespace kvplane
