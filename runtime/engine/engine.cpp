#include "engine/engine.h"

#include <algorithm>

#include "base/error.h"
#include "engine/aux_file.h"
#include "graph/fusion.h"
#include "memory/host_memory.h"
#include "observe/log.h"

namespace kvplane {

namespace {

constexpr int64_t head_rows = 64;  // rows whose logits are made at a time
constexpr uint32_t group_tokens = 16;

Explain explain_by(const std::shared_ptr<Plugin>& plugin) {
    return [plugin](kvp_status status) { return plugin->explain(status); };
}

// Whether the device writes and reads rows of the codec itself.
bool device_knows(Device& device, const Codec& codec, uint32_t head_size) {
    if (codec.row_type() == KVP_TYPE_F16 || codec.row_type() == KVP_TYPE_F32) return true;
    const kvp_row_attributes rows{KVP_HEAD(kvp_row_attributes), codec.row_type(), head_size};
    return codec.row_type() != 0 && device.supports("kvp.attention/1", &rows, {}, 0);
}

PageLayout page_layout(const Pipeline& pipeline, const ModelShape& shape, Device& device, const Codec& codec) {
    PageLayout layout;
    layout.layers = shape.layers;
    layout.kv_heads = shape.kv_heads;
    layout.head_size = shape.head_size;
    layout.page_tokens = static_cast<uint32_t>(pipeline.integer("memory.page_tokens"));
    layout.group_tokens = std::min(group_tokens, layout.page_tokens);
    codec.expect_pages_of(layout.page_tokens);
    if (device_knows(device, codec, shape.head_size)) {
        layout.type = codec.row_type();
        return layout;
    }
    layout.codec = &codec;
    layout.group_tokens = std::max(layout.group_tokens, codec.block_tokens());
    const auto step_tokens = static_cast<uint32_t>(pipeline.integer("schedule.chunk_tokens"));
    layout.recent_groups = (codec.recent_tokens() + step_tokens) / layout.group_tokens + 3;
    return layout;
}

// A strategy that lets rows go, or puts others in their places (a pool), moves each as it lies there.
void expect_rows_that_move(const PageLayout& layout, const Codec& codec, const std::string& strategy, bool drops) {
    if (codec.block_tokens() > 1) {
        throw Error(ErrorKind::config, "kv.codec = \"" + codec.id() + "\" encodes " +
                                           std::to_string(codec.block_tokens()) + " tokens together, and " + strategy +
                                           " lets single rows " +
                                           (drops ? "go" : "take the places of others (a pool)") +
                                           "; take a codec of rows, as int4" + (drops ? "" : ", or no pool"));
    }
    if (drops && layout.codec != nullptr) {
        throw Error(ErrorKind::config,
                    "kv.codec = \"" + codec.id() + "\" is decoded for this device, and " + strategy +
                        " lets rows go, which needs rows that the device reads as they are; take f16");
    }
}

// "auto": all that the sequences can grow to, and no more than half of the machine's memory.
uint64_t budget(const Pipeline& pipeline, const char* key, uint64_t most, uint64_t total_bytes) {
    if (const auto bytes = pipeline.size(key)) return *bytes;
    return total_bytes == 0 ? most : std::min(most, total_bytes / 2);
}

bool reads_in_place(const Pipeline& pipeline, const Device& device) {
    const std::string& access = pipeline.text("tiers.host.access");
    if (access == "copy") return false;
    if (access == "direct" && !device.reads_host_memory()) {
        throw Error(ErrorKind::config, "tiers.host.access = \"direct\", but device " + device.name() +
                                           " cannot read host memory; use \"copy\" or \"auto\"");
    }
    return device.reads_host_memory();
}

}  // namespace

const char* to_string(FinishReason reason) {
    switch (reason) {
        case FinishReason::running: return "running";
        case FinishReason::stop: return "stop";
        case FinishReason::length: return "length";
        case FinishReason::cancelled: return "cancelled";
    }
    return "unknown";
}

Engine::Engine(const Pipeline& pipeline, const Model& model, const Components& plugins, const EngineLimits& limits)
    : model_(model), plugins_(plugins), max_sequences_(pipeline.integer("schedule.max_sequences")) {
    const ModelShape& shape = model.shape();
    const int64_t asked = pipeline.integer("model.context");
    context_ = std::max<int64_t>(asked > 0 ? asked : shape.context_length, limits.context);
    if (limits.max_sequences > 0) max_sequences_ = limits.max_sequences;
    if (context_ > shape.context_length) {
        log("engine").warn("the context of ", context_, " tokens is more than the ", shape.context_length,
                           " that the model was made for");
    }
    strategy_id_ = plugins.kv->id();
    const kvp_device* table = &plugins.device->kind<kvp_device>();
    if (limits.profile != nullptr) table = limits.profile->wrap(table);
    device_ = std::make_unique<Device>(table, 0, explain_by(plugins.device));
    graph_ = build_graph(model, {pipeline.boolean("device.exact_f32")});
    weights_ = std::make_unique<Weights>(*device_, graph_);
    transfers_ =
        std::make_unique<Transfers>(&plugins.transfer->kind<kvp_transfer>(), *device_, explain_by(plugins.transfer));

    codec_ = std::make_unique<Codec>(&plugins.codec->kind<kvp_codec>(), plugins.codec->id(), explain_by(plugins.codec),
                                     shape.head_size);
    const PageLayout layout = page_layout(pipeline, shape, *device_, *codec_);
    const bool in_place = reads_in_place(pipeline, *device_);
    Strategy::Setting setting;
    setting.fingerprint = model.fingerprint();
    setting.context = static_cast<uint32_t>(context_);
    setting.in_place = in_place;
    setting.layout = layout;
    strategy_ = std::make_unique<Strategy>(&plugins.kv->kind<kvp_kv>(), explain_by(plugins.kv), *device_, model, graph_,
                                           *weights_, setting);
    if (const auto aux = pipeline.path("kv.aux"); !aux.empty()) {
        const auto of_model = limits.nominal ? std::nullopt : std::optional(setting.fingerprint);
        const std::vector<std::byte> data = read_aux_file(aux, strategy_id_, of_model);
        if (!limits.nominal) strategy_->aux_load(data);
    }

    constexpr uint64_t between =
        KVP_EVIDENCE_NORMED_INPUT | KVP_EVIDENCE_QUERY_BEFORE_ROPE | KVP_EVIDENCE_KEY_BEFORE_ROPE;
    const int64_t max_rows = pipeline.integer("schedule.chunk_tokens");
    fuse(graph_, *device_, *weights_, {(strategy_->evidence() & between) != 0, max_rows});
    program_ = std::make_unique<Program>(*device_, graph_, *weights_, max_rows, head_rows);

    const uint64_t most_pages =
        uint64_t{layout.pages(static_cast<uint64_t>(context_))} * layout.layers * static_cast<uint64_t>(max_sequences_);
    const uint64_t most = most_pages * layout.page_bytes();
    KvStoreOptions options;
    options.device_bytes =
        budget(pipeline, "tiers.device.kv_bytes", most + 4 * layout.page_bytes(), device_->total_bytes());
    options.host_bytes = budget(pipeline, "tiers.host.kv_bytes", most, physical_memory_bytes());
    options.most_pages = most_pages;
    options.in_place = in_place;
    options.staging_pages = static_cast<uint32_t>(pipeline.integer("memory.staging_pages"));
    options.resident_share = pipeline.real("memory.resident_share");
    options.resident_layers = static_cast<uint32_t>(pipeline.integer("memory.resident_layers"));
    options.rewrites_pages = strategy_->pool_tokens() > 0 || strategy_->drops_rows();
    options.lower_tier = strategy_->wants_lower_tier();
    if (strategy_->pool_tokens() > 0 || strategy_->drops_single_rows()) {
        expect_rows_that_move(layout, *codec_, strategy_id_, strategy_->drops_single_rows());
    }
    if (const uint64_t pool = strategy_->pool_tokens(); pool > 0 && pool < 4 * uint64_t{layout.page_tokens}) {
        throw Error(ErrorKind::config, "a pool of " + std::to_string(pool) +
                                           " tokens is too small: it needs four pages, " +
                                           std::to_string(4 * layout.page_tokens) +
                                           " tokens; raise pool_tokens or lower memory.page_tokens");
    }
    store_ = std::make_unique<KvStore>(*device_, *transfers_, layout, options, strategy_->sidecars());
    runner_ = std::make_unique<StepRunner>(*device_, *program_, *store_, *transfers_, *strategy_, shape,
                                           pipeline.boolean("device.exact_f32"));
    if (const double error = pipeline.real("kv.guard.error"); error > 0 && selects()) {
        runner_->recall_meter().guard(error, static_cast<uint64_t>(pipeline.integer("kv.guard.every")));
    }
}

Engine::~Engine() {
    for (Running& running : running_) {
        if (running.cache != nullptr) finish(running, FinishReason::cancelled);
    }
}

Engine::Running& Engine::find(uint64_t request) {
    for (Running& running : running_) {
        if (running.id == request) return running;
    }
    throw Error(ErrorKind::usage, "no request " + std::to_string(request));
}

const Engine::Running& Engine::find(uint64_t request) const {
    return const_cast<Engine*>(this)->find(request);
}

FinishReason Engine::finish_reason(uint64_t request) const {
    return find(request).reason;
}

const std::vector<int32_t>& Engine::tokens(uint64_t request) const {
    return find(request).text.tokens;
}

void Engine::forget(uint64_t request) {
    Running& running = find(request);
    if (running.cache != nullptr) finish(running, FinishReason::cancelled);
    running_.remove_if([&](const Running& other) { return other.id == request; });
}

void Engine::cancel(uint64_t request) {
    Running& running = find(request);
    if (running.reason == FinishReason::running) finish(running, FinishReason::cancelled);
}

void Engine::hold(uint64_t request, bool held) {
    find(request).held = held;
}

uint64_t Engine::add(Running running) {
    if (running.most_tokens > context_) {
        throw Error(ErrorKind::usage, "the prompt has " + std::to_string(running.most_tokens) +
                                          " tokens, the context holds " + std::to_string(context_) +
                                          "; shorten it or raise model.context");
    }
    check_tokens(running.text.tokens);
    running.id = ++last_id_;
    // All that it can grow to, so that no step has to move it.
    running.text.tokens.reserve(static_cast<size_t>(running.most_tokens));
    running_.push_back(std::move(running));
    return last_id_;
}

void Engine::check_tokens(std::span<const int32_t> tokens) const {
    for (int32_t token : tokens) {
        if (token < 0 || static_cast<uint32_t>(token) >= shape().vocabulary) {
            throw Error(ErrorKind::usage, "token " + std::to_string(token) + " is not in the vocabulary of " +
                                              std::to_string(shape().vocabulary));
        }
    }
}

uint64_t Engine::submit(GenerationRequest request) {
    Running running{};
    running.text.tokens = request.prompt;
    running.text.prompt_tokens = static_cast<int64_t>(request.prompt.size());
    if (running.text.prompt_tokens == 0) throw Error(ErrorKind::usage, "the prompt is empty: give at least one token");
    running.sampler.emplace(request.sampler);
    running.most_tokens =
        std::max(running.text.prompt_tokens, std::min(context_, running.text.prompt_tokens + request.max_tokens));
    running.request = std::move(request);
    const uint64_t id = add(std::move(running));
    try {
        admit();
    } catch (...) {
        forget(id);
        throw;
    }
    return id;
}

// Opens caches in the order of arrival, as far as there is room.
void Engine::admit() {
    int64_t open = std::count_if(running_.begin(), running_.end(), [](const Running& r) { return r.cache != nullptr; });
    for (Running& running : running_) {
        if (running.cache != nullptr || running.reason != FinishReason::running) continue;
        if (open >= max_sequences_) return;
        const int64_t most = running.most_tokens;
        running.cache = store_->open(running.id, static_cast<uint64_t>(std::min(most, pool_rows())));
        if (running.cache == nullptr) return;
        try {
            running.state = strategy_->open_sequence(running.id, running.text.prompt_tokens, most);
        } catch (...) {
            store_->close(running.cache);
            running.cache = nullptr;
            throw;
        }
        ++open;
    }
}

// Most rows that a sequence's cache may hold.
int64_t Engine::pool_rows() const {
    const auto limit = static_cast<int64_t>(strategy_->pool_tokens());
    const int64_t page_tokens = store_->layout().page_tokens;
    return limit == 0 ? INT64_MAX : std::max(page_tokens, limit / page_tokens * page_tokens);
}

void Engine::finish(Running& running, FinishReason reason) {
    running.reason = reason;
    running.text.finished = true;
    if (running.cache == nullptr) return;
    strategy_->close_sequence(running.state);
    store_->close(running.cache);
    runner_->recall_meter().close(running.id);
    running.cache = nullptr;
}

void Engine::on_row(Running& running, int64_t position, std::span<float> logits) {
    if (running.fed) return (*running.listener(position))(position, logits);
    std::vector<int32_t>& tokens = running.text.tokens;
    const int32_t token = running.sampler->sample(logits, tokens);
    const auto& stops = running.request.stop_tokens;
    tokens.push_back(token);
    if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
        running.reason = FinishReason::stop;
    } else if (running.request.on_token && !running.request.on_token(token)) {
        running.reason = FinishReason::cancelled;
    } else if (static_cast<int64_t>(tokens.size()) >= running.most_tokens) {
        running.reason = FinishReason::length;
    }
}

bool Engine::step() {
    admit();
    ready_.clear();
    for (Running& running : running_) {
        if (running.cache != nullptr && !running.held) ready_.emplace_back(&running.text, running.id);
    }
    // A pool makes room for a step by letting rows go; four pages must stay, two to choose from and two that are new.
    const int64_t pool_room = pool_rows() - 4 * int64_t{store_->layout().page_tokens};
    const uint64_t room = std::min(store_->max_step_tokens(),
                                   static_cast<uint64_t>(std::max<int64_t>(store_->layout().page_tokens, pool_room)));
    const SchedulerLimits limits{program_->max_rows(), static_cast<int64_t>(std::min<uint64_t>(room, INT32_MAX)),
                                 store_->layout().page_tokens, store_->spills() ? 1 : max_sequences_};
    next_ = next_step(ready_, limits, std::move(next_));
    if (next_.parts.empty()) return false;

    sequences_.clear();
    logit_rows_.clear();
    owner_of_row_.clear();
    for (const StepPart& part : next_.parts) {
        Running& running = find(part.user);
        sequences_.push_back({running.id, running.cache, running.state});
        if (part.prefill && on_prefill) on_prefill(running.text.n_computed, running.text.prompt_tokens);
        for (int64_t row = part.row_begin; row < part.row_begin + part.n_rows; ++row) {
            owner_of_row_.push_back(&running);
            if (wants_logits(running, next_.positions[static_cast<size_t>(row)])) logit_rows_.push_back(row);
        }
    }
    runner_->run(next_, sequences_, logit_rows_, [this](int64_t row, std::span<float> logits) {
        on_row(*owner_of_row_[static_cast<size_t>(row)], next_.positions[static_cast<size_t>(row)], logits);
    });
    for (const StepPart& part : next_.parts) {
        Running& running = find(part.user);
        if (running.reason != FinishReason::running) finish(running, running.reason);
    }
    return true;
}

void Engine::evaluate(const std::vector<int32_t>& ids, int64_t prompt_tokens, int64_t first,
                      const OnLogits& on_logits) {
    if (ids.empty()) throw Error(ErrorKind::usage, "the prompt is empty: give at least one token");
    const auto n_prompt = static_cast<size_t>(std::clamp<int64_t>(prompt_tokens, 1, static_cast<int64_t>(ids.size())));
    const uint64_t id = open_text(static_cast<int64_t>(ids.size()));
    try {
        feed(id, std::span(ids).first(n_prompt), Feed::prompt_end, on_logits, first);
        feed(id, std::span(ids).subspan(n_prompt), Feed::decode, on_logits, first);
        while (!(should_stop && should_stop()) && step()) {
        }
    } catch (...) {
        forget(id);
        throw;
    }
    forget(id);
}

std::vector<std::byte> Engine::calibrate(const std::vector<int32_t>& ids) {
    if (!strategy_->can_calibrate()) {
        throw Error(ErrorKind::usage, "KV strategy " + strategy_id_ + " needs no calibration");
    }
    runner_->observe([this](uint32_t layer, const float* query, const float* key, int64_t n_rows) {
        strategy_->calibrate(layer, query, key, n_rows);
    });
    try {
        evaluate(ids, static_cast<int64_t>(ids.size()), static_cast<int64_t>(ids.size()), {});
    } catch (...) {
        runner_->observe({});
        throw;
    }
    runner_->observe({});
    return strategy_->aux_save();
}

std::map<std::string, TierReport> Engine::tiers() const {
    const KvStoreOptions& options = store_->options();
    const auto used = [](const Tier& tier) { return tier.count(SlotUse::page) * tier.slot_bytes(); };
    const Tier& device = store_->device_tier();
    const Tier& host = store_->host_tier();
    return {{"device", {options.device_bytes, device.peak_bytes(), used(device)}},
            {"host", {options.host_bytes, host.peak_bytes(), used(host)}}};
}

}  // namespace kvplane
