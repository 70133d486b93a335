// Runs one step: the model's graph cut by cut, the strategy's hooks at the cuts, the cache around attention.
// This file is the place to read how a token goes through kvplane (docs/architecture.md walks it line by line).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/recall_meter.h"
#include "engine/statistics.h"
#include "engine/strategy.h"
#include "graph/program.h"
#include "memory/kv_store.h"
#include "memory/scratch.h"
#include "schedule/step.h"

namespace kvplane {

class StepRunner {
public:
    StepRunner(Device& device, Program& program, KvStore& store, Transfers& transfers, Strategy& strategy,
               const ModelShape& shape, bool exact_f32);

    // `sequences` go with step.parts. `rows`: rows of the step whose logits are wanted, ascending; on_logits
    // gets each, in order, and may change it.
    struct Sequence {
        uint64_t id;
        SequenceCache* cache;
        kvp_kv_state* state;
    };
    void run(const Step& step, std::span<const Sequence> sequences, std::span<const int64_t> rows,
             const std::function<void(int64_t row, std::span<float> logits)>& on_logits);

    // For calibration: sees q and k after RoPE of every layer, on the host.
    using Observe = std::function<void(uint32_t layer, const float* query, const float* key, int64_t n_rows)>;
    void observe(Observe observe) { observe_ = std::move(observe); }

    Statistics& statistics() { return statistics_; }
    RecallMeter& recall_meter() { return recall_meter_; }

private:
    // What a decoding sequence attended to in a layer; counted when the step is over.
    struct Selection {
        size_t part;
        uint32_t layer;
        int64_t n_cached;
        size_t first_segment;  // in selected_segments_
        size_t n_segments;
    };
    // What the ops of a layer are told of one sequence.
    struct Items {
        kvp_rows rows;
        kvp_kv_write_item write;
        kvp_attention_item attention;
        std::vector<const kvp_segment*> segments;
    };

    void begin(const Step& step, std::span<const Sequence> sequences);
    void make_room_in_pools();
    kvp_kv_evidence evidence() const;
    void project(uint32_t layer);
    void keep_before_rope();
    void show_to_observer(uint32_t layer);
    void attend(uint32_t layer);
    void attend_items(std::span<const kvp_attention_item* const> items);
    double count_selections();  // the bytes that decoding parts attended to
    class MeterTime;
    std::vector<float> host_rows(const Tensor& tensor, int64_t first, int64_t n);
    void show_to_meter(uint32_t layer);
    void measure_recall(uint32_t layer);
    void read_guarded_in_full(uint32_t layer);
    void tell_meter_of_replaced(const SequenceCache& cache, uint32_t layer, int64_t end,
                                std::span<const int32_t> victims);
    void make_logits(std::span<const int64_t> rows,
                     const std::function<void(int64_t row, std::span<float> logits)>& on_logits);

    Device& device_;
    Program& program_;
    KvStore& store_;
    Transfers& transfers_;
    Strategy& strategy_;
    uint32_t n_layers_;
    uint32_t n_heads_;
    uint32_t vocabulary_;
    float scale_;
    bool exact_f32_;
    Scratch scratch_;
    Plan kv_write_;
    Plan attention_;
    Buffer query_before_rope_;
    Buffer key_before_rope_;
    Observe observe_;
    Statistics statistics_;
    RecallMeter recall_meter_;

    // Of the step at hand; vectors keep their memory from step to step.
    uint64_t number_ = 0;
    int64_t n_rows_ = 0;
    std::vector<CachedPart> parts_;
    std::vector<Items> items_;  // go with parts_
    std::vector<const kvp_kv_write_item*> write_pointers_;
    std::vector<const kvp_attention_item*> attention_pointers_;
    std::vector<Selection> selections_;
    std::vector<kvp_segment> selected_segments_;
    std::vector<kvp_copy_region> head_copies_;
    std::vector<float> logits_;  // of a device whose memory the host does not read
    uint64_t meter_bytes_ = 0;
    double meter_seconds_ = 0;
    Tensor normed_, residual_, query_, key_, value_, attended_, lse_, positions_, raw_query_, raw_key_;
};

}  // namespace kvplane
