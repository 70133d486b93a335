// The embedding API of kvplane/kvplane.h. Nothing is thrown out of here: an error's text is kept for the thread that
// made it, its kind becomes a status.
#include <kvplane/kvplane.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "api/answer.h"
#include "base/error.h"
#include "observe/log.h"

struct kvp_engine {
    kvplane::Session session;
};

namespace kvplane {

namespace {

thread_local std::string last_error;

kvp_status to_status(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::usage:
        case ErrorKind::config: return KVP_ERROR_INVALID;
        case ErrorKind::model: return KVP_ERROR_CORRUPT;
        case ErrorKind::plugin: return KVP_ERROR_VERSION;
        case ErrorKind::memory: return KVP_ERROR_MEMORY;
        case ErrorKind::runtime: break;
    }
    return KVP_ERROR_INTERNAL;
}

kvp_status fail(kvp_status status, const char* text) noexcept {
    try {
        last_error = text;
    } catch (const std::bad_alloc&) {
        last_error.clear();  // the status still tells
    }
    return status;
}

template <class Body>
kvp_status guarded(Body&& body) noexcept {
    last_error.clear();
    try {
        body();
        return KVP_OK;
    } catch (const Error& error) {
        return fail(to_status(error.kind()), error.what());
    } catch (const std::bad_alloc&) {
        return fail(KVP_ERROR_MEMORY, "out of memory");
    } catch (const std::exception& error) {
        return fail(KVP_ERROR_INTERNAL, error.what());
    } catch (...) {
        return fail(KVP_ERROR_INTERNAL, "a callback threw an exception of an unknown type");
    }
}

void require(bool fits, const char* what) {
    if (!fits) throw Error(ErrorKind::usage, what);
}

Pipeline load_pipeline(const kvp_engine_options* options) {
    PipelineRequest request;
    request.environment = PipelineRequest::process_environment();
    if (KVP_HAS(kvp_engine_options, options, pipeline)) request.file = options->pipeline;
    if (KVP_HAS(kvp_engine_options, options, model)) {
        request.overrides.push_back(std::string("model.path=") + options->model);
    }
    const uint64_t n_overrides = KVP_COVERS(kvp_engine_options, options, n_overrides) ? options->n_overrides : 0;
    require(n_overrides == 0 || options->overrides != nullptr, "kvp_engine_options: n_overrides without overrides");
    for (uint64_t i = 0; i < n_overrides; ++i) {
        require(options->overrides[i] != nullptr, "kvp_engine_options: an override is NULL");
        request.overrides.emplace_back(options->overrides[i]);
    }
    Pipeline pipeline = Pipeline::load(request);
    set_log_levels(LogLevels::parse(pipeline.text("log.level")));
    return pipeline;
}

uint32_t to_finish_reason(FinishReason reason) {
    switch (reason) {
        case FinishReason::stop: return KVP_FINISH_STOP;
        case FinishReason::length: return KVP_FINISH_LENGTH;
        default: return KVP_FINISH_CANCELLED;
    }
}

// Only as much as the caller's header knew of.
void fill(kvp_result* result, const kvp_result& values) {
    if (result == nullptr) return;
    const size_t known = std::min<size_t>(result->head.struct_size, sizeof(kvp_result));
    if (known <= sizeof(kvp_head)) return;
    std::memcpy(reinterpret_cast<std::byte*>(result) + sizeof(kvp_head),
                reinterpret_cast<const std::byte*>(&values) + sizeof(kvp_head), known - sizeof(kvp_head));
}

kvp_result generate(Session& session, const kvp_request* request, kvp_text_fn on_text, void* context) {
    Prompt prompt;
    prompt.text = request->prompt;
    prompt.chat = KVP_COVERS(kvp_request, request, chat) && request->chat != 0;
    AnswerOptions options;
    const uint64_t most = KVP_COVERS(kvp_request, request, max_tokens) ? request->max_tokens : 0;
    const auto context_tokens = static_cast<uint64_t>(session.engine->context());
    options.max_tokens = static_cast<int64_t>(most == 0 ? context_tokens : std::min(most, context_tokens));
    if (on_text != nullptr) {
        options.on_text = [=](const std::string& piece) { return on_text(context, {piece.data(), piece.size()}) == 0; };
    }
    const Statistics before = session.engine->statistics();
    const Answer made = answer(session, prompt, options);
    const Statistics& after = session.engine->statistics();
    kvp_result values{};
    values.prompt_tokens = made.prompt_tokens;
    values.generated_tokens = made.tokens.size();
    values.prefill_seconds = after.prefill_seconds - before.prefill_seconds;
    values.decode_seconds = after.decode_seconds - before.decode_seconds;
    values.finish_reason = to_finish_reason(made.reason);
    return values;
}

}  // namespace

}  // namespace kvplane

kvp_status kvp_engine_open(const kvp_engine_options* options, kvp_engine** engine) {
    using namespace kvplane;
    return guarded([&] {
        require(engine != nullptr, "kvp_engine_open: engine is NULL, there is no place to put it");
        *engine = nullptr;
        require(options != nullptr && options->head.struct_size > sizeof(kvp_head),
                "kvp_engine_open: options is NULL or has no head; start it with KVP_HEAD(kvp_engine_options)");
        *engine = new kvp_engine{open_session(load_pipeline(options), {1, 0})};
    });
}

void kvp_engine_close(kvp_engine* engine) {
    kvplane::guarded([&] { delete engine; });
}

kvp_status kvp_engine_generate(kvp_engine* engine, const kvp_request* request, kvp_text_fn on_text, void* context,
                               kvp_result* result) {
    using namespace kvplane;
    return guarded([&] {
        require(engine != nullptr, "kvp_engine_generate: engine is NULL");
        require(KVP_HAS(kvp_request, request, prompt),
                "kvp_engine_generate: request has no prompt, or no head; start it with KVP_HEAD(kvp_request)");
        fill(result, generate(engine->session, request, on_text, context));
    });
}

const char* kvp_last_error(void) {
    return kvplane::last_error.c_str();
}

const char* kvp_version(void) {
    return KVPLANE_VERSION;
}
