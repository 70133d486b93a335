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
};

// What the caller knows better than the pipeline; 0: the pipeline's word.
struct EngineLimits {
    int64_t max_sequences = 0;
    int64_t context = 0;           // raised to this if the model's own is less, since the caller means to go there
    OpProfile* profile = nullptr;  // gets every op that runs; outlives the engine
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
    bool step() { return step(false); }
    void cancel(uint64_t request);
    // A request that is held keeps its cache and takes no part in steps.
    void hold(uint64_t request, bool held);
    // Of a request that was submitted; forgets it once finished.
    FinishReason finish_reason(uint64_t request) const;
    const std::vector<int32_t>& tokens(uint64_t request) const;  // prompt and new ones
    void forget(uint64_t request);

    // Teacher-forced: the first prompt_tokens of ids are a prompt, every later one is decoded in its turn.
    // on_logits gets those of positions >= first.
    using OnLogits = std::function<void(int64_t position, std::span<float> logits)>;
    void evaluate(const std::vector<int32_t>& ids, int64_t prompt_tokens, int64_t first, const OnLogits& on_logits);
    // Several of them side by side, as many as there is room for. Their prompts come first, so that what follows decodes
    // in full steps.
    struct Evaluation {
        std::vector<int32_t> ids;
        int64_t prompt_tokens = 0;
        int64_t first = 0;
        OnLogits on_logits;
    };
    void evaluate(std::vector<Evaluation> batch);

    // Shows the strategy q and k of this text and gives what it makes of them (kv.aux, engine/aux_file.h).
    std::vector<std::byte> calibrate(const std::vector<int32_t>& ids);

    const ModelShape& shape() const { return model_.shape(); }
    int64_t context() const { return context_; }
    Statistics& statistics() { return runner_->statistics(); }
    RecallMeter& recall_meter() { return runner_->recall_meter(); }
    std::string strategy_id() const { return strategy_id_; }
    std::string strategy_summary() const { return strategy_->summary(); }
    std::map<std::string, TierReport> tiers() const;
    const std::map<std::string, Transfers::Totals>& transfers() const { return transfers_->totals(); }
    // Of K and V of a token, in all layers.
    uint64_t kv_bytes_per_token() const { return store_->layout().token_bytes(); }
    // Layers from dense_layers() on read a part of the rows, if the strategy selects at all.
    bool selects() const { return strategy_->dense_layers() < shape().layers; }
    uint32_t dense_layers() const { return strategy_->dense_layers(); }
    // Of the sidecars that grow with the rows, when a sequence has so many of them.
    uint64_t index_bytes(int64_t rows) const;
    uint64_t peak_sidecar_bytes() const { return store_->peak_sidecar_bytes(); }
    bool in_place() const { return store_->in_place(); }
    const Device& device() const { return *device_; }

    // Called before each step of a prompt: how many of its tokens are done.
    std::function<void(int64_t done, int64_t total)> on_prefill;
    // Asked before each step of evaluate() and calibrate(); true ends them early.
    std::function<bool()> should_stop;

private:
    struct Running {
        uint64_t id;
        GenerationRequest request;
        RunningText text;
        std::optional<Sampler> sampler;
        SequenceCache* cache = nullptr;
        kvp_kv_state* state = nullptr;
        FinishReason reason = FinishReason::running;
        bool held = false;
        bool forced = false;  // tokens are given, nothing is sampled
        int64_t first_logits = 0;
        OnLogits on_logits;
    };

    Running& find(uint64_t request);
    const Running& find(uint64_t request) const;
    uint64_t add(Running running);
    bool step(bool prompts_first);
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
