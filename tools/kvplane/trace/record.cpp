// kvplane trace record: a text whose beginning is a prompt and whose rest is decoded, with all that its strategy selects.
#include <iostream>

#include "base/error.h"
#include "eval/texts.h"
#include "observe/progress.h"
#include "session.h"
#include "signals.h"
#include "trace/trace.h"
#include "trace/trace_file.h"

namespace kvplane::tool {

namespace {

struct RecordOptions {
    ModelOptions model;
    std::string text, output;
    int64_t tokens = 1024;
    int64_t prompt = 0;
    int64_t every = 1;
    int64_t layers = 6;
    bool scores = false;
};

// What has moved and left since the last call.
class Movements {
public:
    explicit Movements(Engine& engine) : engine_(engine), before_(now()) {}
    TraceStep since(uint64_t step, int64_t position) {
        const Totals after = now();
        TraceStep made{step, static_cast<uint32_t>(position), after.to_device - before_.to_device,
                       after.to_host - before_.to_host, after.evicted - before_.evicted};
        before_ = after;
        return made;
    }

private:
    struct Totals {
        uint64_t to_device, to_host, evicted;
    };
    Totals now() const { return {moved("host to device"), moved("device to host"), engine_.statistics().rows_evicted}; }
    uint64_t moved(const std::string& direction) const {
        const auto found = engine_.transfers().find(direction);
        return found == engine_.transfers().end() ? 0 : found->second.bytes;
    }

    Engine& engine_;
    Totals before_;
};

TraceHeader header_of(const Session& session, const RecordOptions& options, int64_t prompt) {
    const ModelShape& shape = session.model->shape();
    TraceHeader header;
    header.model = session.model->fingerprint();
    header.layers = shape.layers;
    header.heads = shape.heads;
    header.kv_heads = shape.kv_heads;
    header.page_tokens = static_cast<uint32_t>(session.pipeline.integer("memory.page_tokens"));
    header.group_tokens = std::min(16u, header.page_tokens);
    header.row_bytes = static_cast<uint32_t>(session.engine->kv_bytes_per_token() / shape.layers / shape.kv_heads);
    header.prompt_tokens = static_cast<uint32_t>(prompt);
    header.scores = options.scores;
    header.strategy = session.engine->strategy_id();
    header.settings = session.engine->strategy_summary();
    return header;
}

int record(const RecordOptions& options) {
    Session session = open_session(options.model, 1, options.tokens);
    Engine& engine = *session.engine;
    std::vector<int32_t> ids = session.tokenizer->encode(read_text_file(options.text), false);
    if (static_cast<int64_t>(ids.size()) > options.tokens) ids.resize(static_cast<size_t>(options.tokens));
    const auto n_ids = static_cast<int64_t>(ids.size());
    const int64_t prompt = options.prompt > 0 ? options.prompt : n_ids / 2;
    if (prompt < 1 || prompt >= n_ids) {
        throw Error(ErrorKind::usage, options.text + ": has " + std::to_string(n_ids) + " tokens; a prompt of " +
                                          std::to_string(prompt) + " leaves none to decode");
    }
    engine.recall_meter().set_every(static_cast<uint64_t>(options.every), static_cast<uint32_t>(options.layers));
    TraceWriter writer(options.output, header_of(session, options, prompt));
    uint64_t samples = 0;
    engine.recall_meter().on_sample = [&](const RecallSample& sample) {
        writer.add(TraceSample{sample.step, sample.layer, static_cast<uint32_t>(sample.position), sample.visible,
                               options.scores ? sample.weights : std::vector<float>()});
        ++samples;
    };
    Texts texts(engine);
    const uint64_t text = texts.open(n_ids);
    Movements movements(engine);
    engine.feed(text, std::span(ids).first(static_cast<size_t>(prompt)), Feed::prompt_end);
    engine.should_stop = [] { return caught_signal() != 0; };
    if (!run_steps(engine)) return 128 + caught_signal();
    writer.add(movements.since(0, prompt - 1));
    Progress progress("record", static_cast<uint64_t>(n_ids - prompt), "tokens");
    for (int64_t position = prompt; position < n_ids; ++position) {
        if (caught_signal() != 0) return 128 + caught_signal();
        engine.feed(text, std::span(ids).subspan(static_cast<size_t>(position), 1), Feed::decode);
        if (!run_steps(engine)) return 128 + caught_signal();
        writer.add(movements.since(static_cast<uint64_t>(position - prompt), position));
        progress.update(static_cast<uint64_t>(position - prompt));
    }
    progress.finish();
    writer.finish();
    std::cout << options.output << ": " << n_ids - prompt << " steps, " << samples << " looks at a layer, "
              << engine.strategy_summary() << "\n";
    return 0;
}

}  // namespace

void add_trace_record(CLI::App& trace, Action& action) {
    auto options = std::make_shared<RecordOptions>();
    CLI::App* command = trace.add_subcommand("record", "Write selections, transfers and evictions of a run to a file");
    add_model_options(*command, options->model);
    command->add_option("--text", options->text, "text file")->required();
    command->add_option("-o,--output", options->output, "file to write")->required();
    command->add_option("--tokens", options->tokens, "most tokens of the text")->check(CLI::Range(2, 1 << 24));
    command->add_option("--prompt", options->prompt, "tokens that are a prompt; 0: half of them")
        ->check(CLI::Range(0, 1 << 24));
    command->add_option("--every", options->every, "look at every Nth decode step")->check(CLI::Range(1, 1 << 24));
    command->add_option("--layers", options->layers, "most layers to look at, spread evenly")
        ->check(CLI::Range(1, 65536));
    command->add_flag("--scores", options->scores, "true attention weights as well, which replay needs for most rules");
    command->callback([options, &action] { action = [options] { return record(*options); }; });
}

}  // namespace kvplane::tool
