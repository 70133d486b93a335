// A model that runs as a pipeline says: takes token sequences, gives tokens or logits.
// One thread at a time; several engines may live in one process.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/pipeline.h"
#include "engine/components.h"
#include "engine/op_profile.h"
#include "engine/statistics.h"
#include "engine/step_runner.h"
#include "engine/strategy.h"
#include "graph/program.h"
#include "memory/kv_store.h"
#include "model/model.h"
#include "sample/sampler.h"
#include "schedule/scheduler.h"

namespace kvplane {

enum class FinishReason { running, stop, length, cancelled };

const char* to_string(FinishReason reason);

struct GenerationRequest {
    std::vector<int32_t> prompt;
    int64_t max_tokens = 128;  // new ones
    SamplerOptions sampler;
    std::vector<int32_t> stop_tokens;
    // Gets every new token; false cancels.
    std::function<bool(int32_t token)> on_token;
};

struct TierReport {
    uint64_t budget_bytes = 0;
    uint64_t peak_bytes = 0;
    uint64_t used_bytes = 0;  // by pages, now
};

// How tokens that the caller gives are computed.
enum class Feed {
    prompt_part,  // in chunks, as a prompt of which more follows
    prompt_end,   // in chunks; the prompt ends with them, and strategies that make something of a prompt do so
    decode,       // one a step, as if they had been sampled: the strategy selects, evicts and so on
};

// What the caller knows better than the pipeline; 0: the pipeline's word.
struct EngineLimits {
    int64_t max_sequences = 0;
    int64_t context = 0;           // raised to this if the model's own is less, since the caller means to go there
    OpProfile* profile = nullptr;  // gets every op that runs; outlives the engine
    bool nominal = false;          // the model stands for any: kv.aux, which is made for one, is read but not used
};

class Engine {
public:
    // The pipeline must have been through open_components and start_components with these plugins.
    Engine(const Pipeline& pipeline, const Model& model, const Components& plugins, const EngineLimits& limits = {});
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Queues a request; its number. Throws Error(usage) for a prompt that is empty or longer than the context, and
    // Error(memory) for one that could never fit.
    uint64_t submit(GenerationRequest request);
    // One step of all that runs. False: nothing is left to do.
    bool step();
    void cancel(uint64_t request);
    // A request that is held keeps its cache and takes no part in steps.
    void hold(uint64_t request, bool held);
    // Of a request that was submitted; forgets it once finished.
    FinishReason finish_reason(uint64_t request) const;
    const std::vector<int32_t>& tokens(uint64_t request) const;  // prompt and new ones
    void forget(uint64_t request);

    // Texts whose tokens the caller gives, for evaluation and for prefixes that many texts share. Nothing is computed
    // before step() is called; texts that have tokens waiting go through it together. forget() closes a text.
    //
    //     const uint64_t shots = engine.open_text(1000);
    //     engine.feed(shots, shot_ids, Feed::prompt_part);
    //     while (engine.step()) {}                                  // the prefix, once
    //     const uint64_t question = engine.fork(shots, 1000);
    //     engine.feed(question, question_ids, Feed::prompt_end, on_logits, last_position);
    //     while (engine.step()) {}
    //     for (each choice) engine.feed(forks[i] = engine.fork(question, 1000), choice_ids, Feed::decode, on_logits);
    //     while (engine.step()) {}                                  // all choices, a token of each a step
    using OnLogits = std::function<void(int64_t position, std::span<float> logits)>;

    // An empty text with room for max_tokens. It waits for its room like a request.
    uint64_t open_text(int64_t max_tokens);
    // Appends tokens. on_logits gets what follows each token at a position >= first: the scores of position + 1.
    // Throws Error(usage) for a prompt after a decode, and for a decode before the prompt's end.
    void feed(uint64_t text, std::span<const int32_t> tokens, Feed how, OnLogits on_logits = {}, int64_t first = 0);
    // A second text that begins with all tokens of a text or request, of which all that are computed stay computed: pages
    // of the cache are shared until one of the two writes to them. Tokens that wait go along, without their on_logits.
    // 0: no room for it now. Throws Error(plugin) if the
    // KV strategy cannot fork.
    uint64_t fork(uint64_t text, int64_t max_tokens);
    // The same for a request that samples; request.prompt are tokens that follow the text's, as the end of its prompt.
    uint64_t fork(uint64_t text, GenerationRequest request);
    // Of a fed text: forgets all tokens from n_tokens on. Throws Error(plugin) if the KV strategy cannot, Error(usage) where rows have
    // left the cache since, and Error(memory) where shared pages would need room that is not there; then nothing changed.
    void rewind(uint64_t text, int64_t n_tokens);

    // Teacher-forced: the first prompt_tokens of ids are a prompt, every later one is decoded in its turn.
    // on_logits gets those of positions >= first.
    void evaluate(const std::vector<int32_t>& ids, int64_t prompt_tokens, int64_t first, const OnLogits& on_logits);

    // Shows the strategy q and k of this text and gives what it makes of them (kv.aux, engine/aux_file.h).
    std::vector<std::byte> calibrate(const std::vector<int32_t>& ids);

    const ModelShape& shape() const { return model_.shape(); }
    int64_t context() const { return context_; }
    Statistics& statistics() { return runner_->statistics(); }
    RecallMeter& recall_meter() { return runner_->recall_meter(); }
    std::string strategy_id() const { return strategy_id_; }
    const Strategy& strategy() const { return *strategy_; }
    const PageLayout& kv_layout() const { return store_->layout(); }
    const Graph& graph() const { return graph_; }  // as the device runs it
    std::string strategy_summary() const { return strategy_->summary(); }
    const Codec& codec() const { return *codec_; }
    // The device does not know the codec: rows that are read are decoded first.
    bool decodes_rows() const { return store_->layout().codec != nullptr; }
    std::map<std::string, TierReport> tiers() const;
    const std::map<std::string, Transfers::Totals>& transfers() const { return transfers_->totals(); }
    // Of K and V of a token, in all layers.
    uint64_t kv_bytes_per_token() const { return store_->layout().token_bytes(); }
    // Layers from dense_layers() on read a part of the rows, if the strategy selects at all.
    bool selects() const { return strategy_->dense_layers() < shape().layers; }
    uint32_t dense_layers() const { return strategy_->dense_layers(); }
    uint64_t peak_sidecar_bytes() const { return store_->peak_sidecar_bytes(); }
    bool in_place() const { return store_->in_place(); }
    const Device& device() const { return *device_; }

    // Called before each step of a prompt: how many of its tokens are done.
    std::function<void(int64_t done, int64_t total)> on_prefill;
    // Asked before each step of evaluate() and calibrate(); true ends them early.
    std::function<bool()> should_stop;

private:
    struct Feeding {
        int64_t begin;  // positions
        int64_t end;
        OnLogits on_logits;
    };
    struct Running {
        uint64_t id;
        GenerationRequest request;
        RunningText text;
        std::optional<Sampler> sampler;
        SequenceCache* cache = nullptr;
        kvp_kv_state* state = nullptr;
        FinishReason reason = FinishReason::running;
        bool held = false;
        bool fed = false;  // tokens are given, nothing is sampled
        int64_t most_tokens = 0;
        std::vector<Feeding> feedings;  // of a fed text, those whose logits somebody wants

        // Who gets the logits of a position of a fed text, null: nobody.
        const OnLogits* listener(int64_t position) const;
    };

    Running& find(uint64_t request);
    const Running& find(uint64_t request) const;
    uint64_t add(Running running);
    void check_tokens(std::span<const int32_t> tokens) const;
    bool wants_logits(const Running& running, int64_t position) const;
    uint64_t add_fork(uint64_t text, Running made, std::span<const int32_t> more);
    void admit();
    int64_t pool_rows() const;
    void finish(Running& running, FinishReason reason);
    void on_row(Running& running, int64_t position, std::span<float> logits);

    const Model& model_;
    Components plugins_;
    int64_t context_;
    int64_t max_sequences_;
    std::string strategy_id_;
    std::unique_ptr<Device> device_;
    Graph graph_;
    std::unique_ptr<Weights> weights_;
    std::unique_ptr<Program> program_;
    std::unique_ptr<Transfers> transfers_;
    std::unique_ptr<Codec> codec_;
    std::unique_ptr<Strategy> strategy_;
    std::unique_ptr<KvStore> store_;
    std::unique_ptr<StepRunner> runner_;
    std::list<Running> running_;
    // Of the step at hand; they keep their memory from step to step.
    std::vector<std::pair<RunningText*, uint64_t>> ready_;
    Step next_;
    std::vector<StepRunner::Sequence> sequences_;
    std::vector<int64_t> logit_rows_;     // rows whose logits are wanted
    std::vector<Running*> owner_of_row_;  // of every row
    uint64_t last_id_ = 0;
};

}  // namespace kvplane
