// The core as a KV strategy sees it, small: caches in host memory as F32 rows, every tier readable in place or not as
// the test says, ops of the cpu plugin when a device is given, else ops that are only written down.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "kvplane/kv.h"
#include "kvplane/sdk/host.hpp"
#include "kvplane/sdk/tensor.hpp"
#include "support/fake_host.h"

namespace kvplane::test {

inline kvp_address address_of(const void* memory) {
    return reinterpret_cast<uintptr_t>(memory);
}

// The cpu plugin, opened; `table` is null where it is not built.
struct CpuDevice {
    explicit CpuDevice(const std::string& path) {
        if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return;
        plugin = std::make_unique<LoadedPlugin>(path, FakeHost::Options{{"threads", "1"}});
        table = plugin->kind<kvp_device>(KVP_KIND_DEVICE);
        kvp::check(table->open(0, &object));
        kvp::check(table->queue_create(object, 0, &queue));
    }
    ~CpuDevice() {
        if (table == nullptr) return;
        table->queue_destroy(queue);
        table->close(object);
    }
    CpuDevice(const CpuDevice&) = delete;
    CpuDevice& operator=(const CpuDevice&) = delete;

    std::unique_ptr<LoadedPlugin> plugin;
    const kvp_device* table = nullptr;
    kvp_device_object* object = nullptr;
    kvp_queue* queue = nullptr;
};

// One sequence's part of a step.
struct FakePart {
    uint32_t sequence;
    uint32_t phase;
    int64_t n_rows;
    bool last_chunk = true;
};

struct FakeFetch {
    uint32_t sequence;
    uint32_t layer;
    uint64_t ticket;
    uint32_t during;  // the layer whose hook asked for it; that of step_begin is 0
    kvp_segment segment;
};

// What a step brings for its rows, the same in every layer. Sizes: [n, D], [n, H*d], [n, G*d].
struct FakeRows {
    std::vector<float> input;  // stands for every view of the residual stream
    std::vector<float> query;
    std::vector<float> key;
    std::vector<float> value;
    std::vector<int32_t> positions;
};

class FakeKvCore {
public:
    static constexpr int64_t capacity = 1024;  // rows of a sequence

    struct Sequence {
        kvp_kv_sequence abi = kvp::make<kvp_kv_sequence>();
        struct Layer {
            std::vector<float> rows;          // [G][capacity][2d]
            std::vector<kvp_address> groups;  // [G][capacity / group_tokens]
            std::vector<std::vector<std::byte>> sidecars;
            int64_t n_dropped = 0;
            std::vector<std::vector<int>> tokens;  // [kv_head][row]: which token the cached row is
        };
        std::vector<Layer> layers;
    };

    // `missing`: ops that the device does not have.
    FakeKvCore(const std::string& plugin, kvp_kv_model shape, FakeHost::Options options, CpuDevice* device = nullptr,
               std::set<std::string> missing = {})
        : model(shape), missing_(std::move(missing)), plugin_(plugin, std::move(options)), device_(device) {
        if (device_ != nullptr && device_->table == nullptr) device_ = nullptr;
        table = plugin_.kind<kvp_kv>(KVP_KIND_KV);
        fill_core();
        created = table->create(&core_, &model, &instance, &needs);
    }
    ~FakeKvCore() {
        for (Sequence& sequence : sequences) {
            if (table->seq_close != nullptr) table->seq_close(instance, sequence.abi.state);
        }
        if (created == KVP_OK) table->destroy(instance);
        if (attention_ != nullptr) device_->table->op_release(attention_);
    }

    const std::string& error() const { return plugin_.host.error; }
    const kvp_plugin_descriptor& descriptor() const { return *plugin_.descriptor; }
    const LoadedPlugin& plugin() const { return plugin_; }

    Sequence& open() {
        Sequence& made = sequences.emplace_back();
        made.layers.resize(model.n_layers);
        for (auto& layer : made.layers) {
            layer.rows.resize(size_t{model.n_kv_heads} * capacity * row_values());
            for (uint32_t head = 0; head < model.n_kv_heads; head++) {
                for (int64_t token = 0; token < capacity; token += model.group_tokens) {
                    layer.groups.push_back(address_of(row(layer, head, token)));
                }
            }
            for (uint32_t i = 0; i < needs->n_sidecars; i++) layer.sidecars.emplace_back(sidecar_bytes(i));
            layer.tokens.resize(model.n_kv_heads);
        }
        if (table->seq_open != nullptr) {
            kvp::check(table->seq_open(instance, sequences.size(), 0, 0, &made.abi.state));
        }
        return made;
    }

    // Rows of a layer after the last step.
    int64_t n_rows(uint32_t sequence, uint32_t layer) {
        return sequences[sequence].abi.n_cached - sequences[sequence].layers[layer].n_dropped;
    }

    void prefill(uint32_t sequence, int64_t n_rows, const FakeRows& rows, bool last_chunk = true) {
        step({{sequence, KVP_PHASE_PREFILL, n_rows, last_chunk}}, rows);
    }
    void decode(uint32_t sequence, const FakeRows& rows) { step({{sequence, KVP_PHASE_DECODE, 1}}, rows); }

    void step(const std::vector<FakePart>& of_step, const FakeRows& rows) {
        step(of_step, std::vector<FakeRows>{rows});
    }
    // With rows of each layer.
    void step(const std::vector<FakePart>& of_step, const std::vector<FakeRows>& rows_of_layers) {
        const FakeRows& rows = rows_of_layers.front();
        std::vector<const kvp_kv_sequence*> parts;
        members_.clear();
        int64_t total = 0;
        for (const FakePart& part : of_step) {
            kvp_kv_sequence& abi = sequences.at(part.sequence).abi;
            abi.phase = part.phase;
            abi.last_chunk = part.last_chunk;
            abi.row_begin = total;
            abi.n_rows = part.n_rows;
            abi.position = abi.n_cached;
            total += part.n_rows;
            parts.push_back(&abi);
            members_.push_back(&sequences[part.sequence]);
        }
        const auto width = [&](uint32_t heads) { return int64_t{heads} * model.head_size; };
        const auto input = kvp::Tensor::f32(address_of(rows.input.data()), {total, model.width});
        std::vector<kvp::Tensor> queries, keys, values;
        for (const FakeRows& of_layer : rows_of_layers) {
            queries.push_back(kvp::Tensor::f32(address_of(of_layer.query.data()), {total, width(model.n_heads)}));
            keys.push_back(kvp::Tensor::f32(address_of(of_layer.key.data()), {total, width(model.n_kv_heads)}));
            values.push_back(kvp::Tensor::f32(address_of(of_layer.value.data()), {total, width(model.n_kv_heads)}));
        }
        attended.resize(static_cast<size_t>(total * width(model.n_heads)));
        std::vector<float> lse_values(static_cast<size_t>(total) * model.n_heads);
        const auto output = kvp::Tensor::f32(address_of(attended.data()), {total, width(model.n_heads)});
        const auto lse = kvp::Tensor::f32(address_of(lse_values.data()), {total, model.n_heads});
        const auto positions = kvp::Tensor::i32(address_of(rows.positions.data()), {total});
        auto evidence = kvp::make<kvp_kv_evidence>();
        evidence.normed_input = evidence.residual = evidence.residual_mid = input;
        evidence.lse = lse;
        evidence.output = output;
        evidence.positions = positions;

        auto step = kvp::make<kvp_kv_step>();
        step.sequences = parts.data();
        step.n_sequences = static_cast<uint32_t>(parts.size());
        scratch_.clear();
        fetches.clear();
        segments.assign(model.n_layers, std::vector<std::vector<kvp_segment>>(parts.size()));
        wrote_ = false;
        call(table->step_begin, step);
        step.evidence = &evidence;
        wrote_ = true;
        std::vector<int64_t> n_cached;
        for (Sequence* member : members_) n_cached.push_back(member->abi.n_cached);
        for (step.layer = 0; step.layer < model.n_layers; step.layer++) {
            const size_t at = rows_of_layers.size() == 1 ? 0 : step.layer;
            evidence.query = queries[at];
            evidence.key = keys[at];
            evidence.value = values[at];
            for (size_t i = 0; i < members_.size(); i++) {
                members_[i]->abi.n_cached = n_cached[i] - members_[i]->layers[step.layer].n_dropped;
            }
            call(table->layer_begin, step);
            write(step, rows_of_layers[at]);
            call(table->on_write, step);
            call(table->attn_plan, step);
            attend(step, queries[at], output, lse);
            call(table->attn_done, step);
            call(table->ffn_begin, step);
            for (uint32_t i = 0; table->prefill_end != nullptr && i < parts.size(); i++) {
                if (parts[i]->phase == KVP_PHASE_PREFILL && parts[i]->last_chunk != 0) {
                    kvp::check(table->prefill_end(instance, reinterpret_cast<kvp_kv_call*>(this), &step, i));
                }
            }
        }
        step.layer = 0;
        for (size_t i = 0; i < members_.size(); i++) members_[i]->abi.n_cached = n_cached[i];
        call(table->step_end, step);
        for (Sequence* member : members_) member->abi.n_cached += member->abi.n_rows;
    }

    // What the core does when sequence `number`'s cache is full: in every layer, victims in [begin, end), the page that
    // starts at `end` over them, and that page taken out. Returns the victims of layer 0.
    std::vector<int32_t> replace_page(uint32_t number, int64_t begin, int64_t end) {
        Sequence& sequence = sequences[number];
        const int64_t page = model.page_tokens;
        members_ = {&sequence};
        const kvp_kv_sequence* part = &sequence.abi;
        auto step = kvp::make<kvp_kv_step>();
        step.sequences = &part;
        step.n_sequences = 1;
        std::vector<int32_t> first;
        for (step.layer = 0; step.layer < model.n_layers; step.layer++) {
            std::vector<int32_t> victims(static_cast<size_t>(page) * model.n_kv_heads, -1);
            auto eviction = kvp::make<kvp_kv_eviction>();
            eviction.layer = step.layer;
            eviction.n_rows = model.page_tokens;
            eviction.n_kv_heads = model.n_kv_heads;
            eviction.candidates_begin = begin;
            eviction.candidates_end = end;
            eviction.victims = victims.data();
            auto* context = reinterpret_cast<kvp_kv_call*>(this);
            kvp::check(table->evict(instance, context, &step, &eviction));
            auto& layer = sequence.layers[step.layer];
            for (uint32_t head = 0; head < model.n_kv_heads; head++) {
                for (int64_t i = 0; i < page; i++) {
                    const int32_t victim = victims[static_cast<size_t>(head * page + i)];
                    std::copy_n(row(layer, head, end + i), row_values(), row(layer, head, victim));
                }
                std::copy(row(layer, head, end + page), row(layer, head, sequence.abi.n_cached), row(layer, head, end));
            }
            kvp::check(table->rows_replaced(instance, context, &step, &eviction));
            if (step.layer == 0) first = victims;
        }
        sequence.abi.n_cached -= page;
        return first;
    }

    // The same numbers for every row: enough where only the plan matters.
    FakeRows plain_rows(int64_t n) const {
        const auto size = [n](uint32_t width) { return static_cast<size_t>(n) * width; };
        return {std::vector<float>(size(model.width)), std::vector<float>(size(model.n_heads * model.head_size)),
                std::vector<float>(size(model.n_kv_heads * model.head_size)),
                std::vector<float>(size(model.n_kv_heads * model.head_size)), std::vector<int32_t>(size(1))};
    }

    // Taken in the last step.
    uint64_t scratch_bytes() const {
        uint64_t sum = 0;
        for (const auto& piece : scratch_) sum += piece.size();
        return sum;
    }

    float* row(Sequence::Layer& layer, uint32_t head, int64_t token) {
        return layer.rows.data() + (size_t{head} * capacity + static_cast<size_t>(token)) * row_values();
    }
    size_t row_values() const { return size_t{2} * model.head_size; }

    kvp_kv_model model;
    const kvp_kv* table = nullptr;
    kvp_status created = KVP_OK;
    kvp_kv_instance* instance = nullptr;
    const kvp_kv_needs* needs = nullptr;
    std::deque<Sequence> sequences;

    // Of the last step; segments [layer][sequence of the step].
    std::vector<std::vector<std::vector<kvp_segment>>> segments;
    std::vector<FakeFetch> fetches;
    std::vector<float> attended;        // attention's output in the last layer, with a device
    std::vector<std::string> prepared;  // op ids, of the instance
    std::deque<std::vector<std::byte>> constants;

private:
    struct Plan {
        std::string op;
        kvp_plan* of_device;
    };
    using Hook = kvp_status (*)(kvp_kv_instance*, kvp_kv_call*, const kvp_kv_step*);

    static FakeKvCore& self(kvp_kv_call* call) { return *reinterpret_cast<FakeKvCore*>(call); }
    static FakeKvCore& self(kvp_kv_core_object* object) { return *reinterpret_cast<FakeKvCore*>(object); }

    void call(Hook hook, const kvp_kv_step& step) {
        layer_ = step.layer;
        if (hook != nullptr) kvp::check(hook(instance, reinterpret_cast<kvp_kv_call*>(this), &step));
    }

    void write(const kvp_kv_step& step, const FakeRows& rows) {
        const size_t d = model.head_size;
        for (Sequence* member : members_) {
            for (int64_t i = 0; i < member->abi.n_rows; i++) {
                for (uint32_t head = 0; head < model.n_kv_heads; head++) {
                    float* to = row(member->layers[step.layer], head, member->abi.n_cached + i);
                    const size_t from = (static_cast<size_t>(member->abi.row_begin + i) * model.n_kv_heads + head) * d;
                    std::copy_n(rows.key.data() + from, d, to);
                    std::copy_n(rows.value.data() + from, d, to + d);
                    auto& tokens = member->layers[step.layer].tokens[head];
                    tokens.resize(static_cast<size_t>(member->abi.n_cached + i));
                    tokens.push_back(static_cast<int>(member->abi.position + i));
                }
            }
        }
    }

    // What the core does between attn_plan and attn_done.
    void attend(const kvp_kv_step& step, const kvp_tensor* query, const kvp_tensor* output, const kvp_tensor* lse) {
        if (device_ == nullptr) return;
        if (attention_ == nullptr) {
            auto request = kvp::make<kvp_op_request>();
            request.op = kvp::str("kvp.attention/1");
            kvp::check(device_->table->op_prepare(device_->object, &request, &attention_));
        }
        for (uint32_t i = 0; i < step.n_sequences; i++) {
            std::vector<const kvp_segment*> read;
            for (const kvp_segment& segment : segments[step.layer][i]) read.push_back(&segment);
            const kvp_rows rows = rows_of(*members_[i], step.layer);
            auto item = kvp::make<kvp_attention_item>();
            item.rows = &rows;
            item.row_begin = members_[i]->abi.row_begin;
            item.n_rows = members_[i]->abi.n_rows;
            item.token_begin = members_[i]->abi.n_cached;
            item.segments = read.data();
            item.n_segments = static_cast<uint32_t>(read.size());
            const kvp_attention_item* const items[] = {&item};
            auto arguments = kvp::make<kvp_attention_arguments>();
            arguments.items = items;
            arguments.n_items = 1;
            arguments.n_heads = model.n_heads;
            arguments.scale = 1 / std::sqrt(static_cast<float>(model.head_size));
            arguments.exact_f32 = 1;
            const kvp_tensor* const operands[] = {query, output, lse};
            kvp::check(device_->table->op_enqueue(device_->queue, attention_, operands, 3, &arguments));
        }
    }

    int64_t rows_now(const Sequence& sequence, uint32_t layer) const {
        return wrote_ ? sequence.abi.n_cached + sequence.abi.n_rows
                      : sequence.abi.n_cached - sequence.layers[layer].n_dropped;
    }
    // Row i of each KV head becomes what from[head][i] was.
    void move_rows(Sequence& sequence, uint32_t at, const std::vector<std::vector<int>>& from) {
        auto& layer = sequence.layers[at];
        layer.n_dropped += rows_now(sequence, at) - static_cast<int64_t>(from[0].size());
        for (uint32_t head = 0; head < model.n_kv_heads; head++) {
            for (size_t i = 0; i < from[head].size(); i++) {
                const int source = from[head][i];
                std::copy_n(row(layer, head, source), row_values(), row(layer, head, static_cast<int64_t>(i)));
                layer.tokens[head][i] = layer.tokens[head][static_cast<size_t>(source)];
                for (uint32_t s = 0; s < needs->n_sidecars; s++) {
                    if (needs->sidecars[s]->scope != KVP_SIDECAR_TOKEN) continue;
                    const size_t bytes = needs->sidecars[s]->n_bytes;
                    auto* base = layer.sidecars[s].data() + size_t{head} * capacity * bytes;
                    std::copy_n(base + static_cast<size_t>(source) * bytes, bytes, base + i * bytes);
                }
            }
            layer.tokens[head].resize(from[head].size());
        }
    }

    uint64_t sidecar_capacity(uint32_t index) const {
        switch (needs->sidecars[index]->scope) {
            case KVP_SIDECAR_TOKEN: return capacity;
            case KVP_SIDECAR_PAGE: return capacity / model.page_tokens;
            default: return 1;
        }
    }
    uint64_t sidecar_bytes(uint32_t index) const {
        const uint64_t heads = needs->sidecars[index]->scope == KVP_SIDECAR_LAYER ? 1 : model.n_kv_heads;
        return heads * sidecar_capacity(index) * needs->sidecars[index]->n_bytes;
    }

    kvp_rows rows_of(Sequence& sequence, uint32_t layer) {
        auto rows = kvp::make<kvp_rows>();
        rows.groups = address_of(sequence.layers[layer].groups.data());
        rows.groups_stride = static_cast<uint64_t>(capacity) / model.group_tokens;
        rows.n_kv_heads = model.n_kv_heads;
        rows.head_size = model.head_size;
        rows.group_tokens = model.group_tokens;
        rows.type = KVP_TYPE_F32;
        return rows;
    }

    void fill_core() {
        core_ = kvp::make<kvp_kv_core>();
        core_.object = reinterpret_cast<kvp_kv_core_object*>(this);
        core_.op_support = [](kvp_kv_core_object* object, const kvp_op_request* request, kvp_op_answer* answer) {
            FakeKvCore& core = self(object);
            if (core.missing_.count(std::string(kvp::view(request->op))) > 0) return kvp_status{KVP_UNSUPPORTED};
            if (core.device_ == nullptr) return kvp_status{KVP_OK};
            return core.device_->table->op_support(core.device_->object, request, answer);
        };
        core_.op_prepare = [](kvp_kv_core_object* object, const kvp_op_request* request, kvp_plan** plan) {
            FakeKvCore& core = self(object);
            core.prepared.emplace_back(kvp::view(request->op));
            kvp_plan* of_device = nullptr;
            kvp_status status = KVP_OK;
            if (core.device_ != nullptr) {
                status = core.device_->table->op_prepare(core.device_->object, request, &of_device);
            }
            if (status == KVP_OK) *plan = reinterpret_cast<kvp_plan*>(new Plan{core.prepared.back(), of_device});
            return status;
        };
        core_.op_release = [](kvp_kv_core_object* object, kvp_plan* plan) {
            const auto* mine = reinterpret_cast<Plan*>(plan);
            if (self(object).device_ != nullptr) self(object).device_->table->op_release(mine->of_device);
            delete mine;
        };
        core_.op_enqueue = [](kvp_kv_call* call, const kvp_plan* plan, const kvp_tensor* const* operands,
                              uint32_t n_operands, const void* arguments) {
            const CpuDevice* device = self(call).device_;
            if (device == nullptr) return kvp_status{KVP_OK};
            return device->table->op_enqueue(device->queue, reinterpret_cast<const Plan*>(plan)->of_device, operands,
                                             n_operands, arguments);
        };
        core_.constant = [](kvp_kv_core_object* object, const void* data, uint64_t n_bytes, kvp_address* address) {
            const auto* bytes = static_cast<const std::byte*>(data);
            *address = address_of(self(object).constants.emplace_back(bytes, bytes + n_bytes).data());
            return kvp_status{KVP_OK};
        };
        core_.scratch = [](kvp_kv_call* call, uint64_t n_bytes, kvp_address* address) {
            *address = address_of(self(call).scratch_.emplace_back(n_bytes).data());
            return kvp_status{KVP_OK};
        };
        core_.sidecar = [](kvp_kv_call* call, uint32_t sequence, uint32_t layer, uint32_t sidecar, kvp_address* address,
                           uint64_t* capacity_found) {
            FakeKvCore& core = self(call);
            if (layer < core.needs->sidecars[sidecar]->first_layer) return kvp_status{KVP_NOT_FOUND};
            *address = address_of(core.members_.at(sequence)->layers.at(layer).sidecars.at(sidecar).data());
            *capacity_found = core.sidecar_capacity(sidecar);
            return kvp_status{KVP_OK};
        };
        core_.rows = [](kvp_kv_call* call, uint32_t sequence, uint32_t layer, kvp_rows* rows) {
            *rows = self(call).rows_of(*self(call).members_.at(sequence), layer);
            return kvp_status{KVP_OK};
        };
        core_.fetch = [](kvp_kv_call* call, uint32_t sequence, uint32_t layer, const kvp_segment* segment,
                         uint64_t* ticket) {
            *ticket = 1000 + self(call).fetches.size();
            self(call).fetches.push_back({sequence, layer, *ticket, self(call).layer_, *segment});
            return kvp_status{KVP_OK};
        };
        core_.segment = [](kvp_kv_call* call, uint32_t sequence, const kvp_segment* segment) {
            FakeKvCore& core = self(call);
            core.segments.at(core.layer_).at(sequence).push_back(*segment);
            return kvp_status{KVP_OK};
        };
        core_.copy = [](kvp_kv_call*, const kvp_copy_region* regions, uint32_t n_regions) {
            for (uint32_t i = 0; i < n_regions; i++) {
                std::memcpy(reinterpret_cast<void*>(regions[i].to), reinterpret_cast<const void*>(regions[i].from),
                            regions[i].n_bytes);
            }
            return kvp_status{KVP_OK};
        };
        core_.keep_rows = [](kvp_kv_call* call, uint32_t sequence, uint32_t layer, kvp_address index, uint64_t stride,
                             uint32_t n_chosen, int64_t tail_begin) {
            FakeKvCore& core = self(call);
            Sequence& of = *core.members_.at(sequence);
            std::vector<std::vector<int>> from(core.model.n_kv_heads);
            for (uint32_t head = 0; head < core.model.n_kv_heads; head++) {
                const auto* chosen = reinterpret_cast<const int32_t*>(index) + head * stride;
                from[head].assign(chosen, chosen + n_chosen);
                for (int64_t row = tail_begin; row < core.rows_now(of, layer); row++) from[head].push_back(int(row));
            }
            core.move_rows(of, layer, from);
            return kvp_status{KVP_OK};
        };
        core_.drop_pages = [](kvp_kv_call* call, uint32_t sequence, uint32_t layer, uint32_t first, uint32_t n_pages) {
            FakeKvCore& core = self(call);
            Sequence& of = *core.members_.at(sequence);
            const auto page = static_cast<int64_t>(core.model.page_tokens);
            std::vector<int> from;
            for (int64_t row = 0; row < core.rows_now(of, layer); row++) {
                if (row < first * page || row >= (first + n_pages) * page) from.push_back(int(row));
            }
            core.move_rows(of, layer, std::vector<std::vector<int>>(core.model.n_kv_heads, from));
            return kvp_status{KVP_OK};
        };
        // In pieces of one page, so that a strategy that ignores begin and end is found out.
        core_.visit = [](kvp_kv_call* call, uint32_t sequence, uint32_t layer, int64_t begin, int64_t end,
                         kvp_status (*visit)(void*, const kvp_rows*, int64_t, int64_t), void* context) {
            FakeKvCore& core = self(call);
            const kvp_rows rows = core.rows_of(*core.members_.at(sequence), layer);
            const int64_t page = core.model.page_tokens;
            for (int64_t from = begin; from < end;) {
                const int64_t to = std::min(end, (from / page + 1) * page);
                const kvp_status status = visit(context, &rows, from, to);
                if (status != KVP_OK) return status;
                from = to;
            }
            return kvp_status{KVP_OK};
        };
    }

    kvp_kv_core core_;
    std::set<std::string> missing_;
    LoadedPlugin plugin_;
    CpuDevice* device_;
    std::vector<Sequence*> members_;  // of the step
    uint32_t layer_ = 0;
    bool wrote_ = false;  // the step's rows are in the cache
    kvp_plan* attention_ = nullptr;
    std::deque<std::vector<std::byte>> scratch_;
};

}  // namespace kvplane::test
