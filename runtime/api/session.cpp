#include "api/session.h"

#include <chrono>

#include "base/error.h"
#include "observe/log.h"

namespace kvplane {

namespace {

void warn(const char* component, const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) log(component).warn(warning);
}

}  // namespace

Session open_session(Pipeline pipeline, const EngineLimits& limits) {
    const auto start = std::chrono::steady_clock::now();
    Session session{std::move(pipeline), {}, {}, {}, {}, 0};
    session.plugins = open_components(session.pipeline);
    warn("config", session.pipeline.warnings());
    const auto path = session.pipeline.path("model.path");
    if (path.empty()) throw Error(ErrorKind::usage, "no model: give --model FILE, or model.path in the pipeline");
    session.model = Model::open(path.string());
    warn("model", session.model->warnings());
    session.tokenizer = Tokenizer::from_gguf(session.model->file());
    warn("tokenizer", session.tokenizer->warnings());
    start_components(session.plugins, session.pipeline);
    session.engine = std::make_unique<Engine>(session.pipeline, *session.model, session.plugins, limits);
    session.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    log("engine").info("loaded ", path.string(), " in ", session.load_seconds, " s; ",
                       session.engine->strategy_summary());
    return session;
}

}  // namespace kvplane
