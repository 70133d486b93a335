#include "engine/step_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"

namespace kvplane {

StepRunner::StepRunner(Device& device, Program& program, KvStore& store, Transfers& transfers, Strategy& strategy,
                       const ModelShape& shape, bool exact_f32)
    : device_(device),
      program_(program),
      store_(store),
      transfers_(transfers),
      strategy_(strategy),
      n_layers_(shape.layers),
      n_heads_(shape.heads),
      vocabulary_(shape.vocabulary),
      scale_(1.0f / std::sqrt(static_cast<float>(shape.head_size))),
      exact_f32_(exact_f32),
      scratch_(device),
      kv_write_(device.prepare("kvp.kv_write/1", nullptr, {}, program.max_rows())),
      attention_(device.prepare("kvp.attention/1", nullptr, {}, program.max_rows())),
      recall_meter_(strategy.dense_layers(), shape.layers, shape.kv_heads, shape.head_size) {
    strategy_.attach(store_, scratch_);
    store_.on_rows_moved = [this](const SequenceCache& cache, uint32_t layer, int64_t n_rows, const auto& from) {
        recall_meter_.rows_moved(cache.id, layer, n_rows, from);
    };
    const auto row_bytes = [&](ValueId id) {
        return static_cast<uint64_t>(program.max_rows() * program.graph().values[id].width) * sizeof(float);
    };
    if ((strategy_.evidence() & KVP_EVIDENCE_QUERY_BEFORE_ROPE) != 0) {
        query_before_rope_ = Buffer(device, row_bytes(program.graph().query), "query before RoPE");
    }
    if ((strategy_.evidence() & KVP_EVIDENCE_KEY_BEFORE_ROPE) != 0) {
        key_before_rope_ = Buffer(device, row_bytes(program.graph().key), "key before RoPE");
    }
}

void StepRunner::begin(const Step& step, std::span<const Sequence> sequences) {
    const Graph& graph = program_.graph();
    n_rows_ = step.n_rows();
    ++number_;
    scratch_.reset();
    meter_bytes_ = 0;
    meter_seconds_ = 0;
    selections_.clear();
    selected_segments_.clear();
    parts_.resize(step.parts.size());
    items_.resize(step.parts.size());
    for (size_t i = 0; i < step.parts.size(); ++i) {
        const StepPart& part = step.parts[i];
        CachedPart& made = parts_[i];
        made.cache = sequences[i].cache;
        made.abi.head.struct_size = sizeof(made.abi);
        made.abi.id = sequences[i].id;
        made.abi.state = sequences[i].state;
        made.abi.phase = part.prefill ? KVP_PHASE_PREFILL : KVP_PHASE_DECODE;
        made.abi.last_chunk = part.last_chunk ? 1 : 0;
        made.abi.row_begin = part.row_begin;
        made.abi.n_rows = part.n_rows;
        made.abi.n_cached = made.cache->n_rows(0);
        made.abi.position = step.positions[static_cast<size_t>(part.row_begin)];
    }
    const auto value = [&](ValueId id) { return program_.value(id, n_rows_); };
    normed_ = value(graph.normed);
    residual_ = value(graph.residual);
    query_ = value(graph.query);
    key_ = value(graph.key);
    value_ = value(graph.value);
    attended_ = value(graph.attention);
    lse_ = value(graph.lse);
    positions_ = value(graph.positions);
    const auto copy_of = [&](const Tensor& like, const Buffer& buffer) {
        return Tensor::matrix(Tensor::Element::f32, n_rows_, like.columns(), buffer.address());
    };
    if (query_before_rope_.address() != 0) raw_query_ = copy_of(query_, query_before_rope_);
    if (key_before_rope_.address() != 0) raw_key_ = copy_of(key_, key_before_rope_);
    const auto bytes = static_cast<uint64_t>(n_rows_) * sizeof(int32_t);
    device_.upload(value(graph.tokens).address(), step.tokens.data(), bytes);
    device_.upload(positions_.address(), step.positions.data(), bytes);
}

// A pool's rows stay within its limit: the rows of the last complete page but one, which are no longer recent, take the
// places of victims, and again, until the step's rows fit.
void StepRunner::make_room_in_pools() {
    if (strategy_.pool_tokens() == 0) return;
    const int64_t page_tokens = store_.layout().page_tokens;
    const int64_t limit = static_cast<int64_t>(strategy_.pool_tokens()) / page_tokens * page_tokens;
    for (uint32_t i = 0; i < parts_.size(); ++i) {
        SequenceCache& cache = *parts_[i].cache;
        while (cache.n_cached + parts_[i].abi.n_rows > limit) {
            const int64_t end = (cache.n_cached / page_tokens - 2) * page_tokens;
            if (end < page_tokens) {
                throw Error(ErrorKind::config, "a pool of " + std::to_string(strategy_.pool_tokens()) +
                                                   " tokens cannot take " + std::to_string(parts_[i].abi.n_rows) +
                                                   " rows at once: raise pool_tokens or lower schedule.chunk_tokens");
            }
            for (uint32_t layer = 0; layer < n_layers_; ++layer) {
                std::vector<int32_t> victims = strategy_.evict(i, layer, end);
                store_.replace_rows(cache, layer, static_cast<uint32_t>(end / page_tokens), victims);
                strategy_.rows_replaced(i, layer, end, victims);
                tell_meter_of_replaced(cache, layer, end, victims);
            }
            store_.rows_were_replaced(cache);
            parts_[i].abi.n_cached = cache.n_cached;
        }
        statistics_.peak_rows =
            std::max<uint64_t>(statistics_.peak_rows, static_cast<uint64_t>(cache.n_cached + parts_[i].abi.n_rows));
    }
}

void StepRunner::tell_meter_of_replaced(const SequenceCache& cache, uint32_t layer, int64_t end,
                                        std::span<const int32_t> victims) {
    if (!recall_meter_.wants(layer)) return;
    const int64_t page_tokens = store_.layout().page_tokens, n_rows = cache.n_rows(layer);
    std::vector<std::vector<int32_t>> from(store_.layout().kv_heads);
    for (size_t head = 0; head < from.size(); ++head) {
        for (int64_t row = 0; row < n_rows; ++row) {
            if (row < end || row >= end + page_tokens) from[head].push_back(static_cast<int32_t>(row));
        }
        for (int64_t i = 0; i < page_tokens; ++i) {
            const int32_t victim = victims[head * static_cast<size_t>(page_tokens) + static_cast<size_t>(i)];
            from[head][static_cast<size_t>(victim)] = static_cast<int32_t>(end + i);
        }
    }
    recall_meter_.rows_moved(cache.id, layer, n_rows, from);
}

kvp_kv_evidence StepRunner::evidence() const {
    const uint64_t asked = strategy_.evidence();
    const auto if_asked = [&](uint64_t bit, const Tensor& tensor) {
        return (asked & bit) != 0 ? tensor.abi() : nullptr;
    };
    kvp_kv_evidence made{};
    made.head.struct_size = sizeof(made);
    made.normed_input = if_asked(KVP_EVIDENCE_NORMED_INPUT, normed_);
    made.residual = if_asked(KVP_EVIDENCE_RESIDUAL, residual_);
    made.residual_mid = if_asked(KVP_EVIDENCE_RESIDUAL_MID, residual_);
    made.query = if_asked(KVP_EVIDENCE_QUERY, query_);
    made.key = if_asked(KVP_EVIDENCE_KEY, key_);
    made.value = if_asked(KVP_EVIDENCE_VALUE, value_);
    made.query_before_rope = if_asked(KVP_EVIDENCE_QUERY_BEFORE_ROPE, raw_query_);
    made.key_before_rope = if_asked(KVP_EVIDENCE_KEY_BEFORE_ROPE, raw_key_);
    made.lse = if_asked(KVP_EVIDENCE_LSE, lse_);
    made.output = if_asked(KVP_EVIDENCE_OUTPUT, attended_);
    made.positions = positions_.abi();
    return made;
}

void StepRunner::run(const Step& step, std::span<const Sequence> sequences, std::span<const int64_t> rows,
                     const std::function<void(int64_t row, std::span<float> logits)>& on_logits) {
    const auto start = std::chrono::steady_clock::now();
    const uint64_t moved_before = transfers_.bytes();
    begin(step, sequences);
    const kvp_kv_evidence seen = evidence();
    program_.run_embed(n_rows_);
    strategy_.step_begin(parts_, number_);
    make_room_in_pools();
    for (uint32_t layer = 0; layer < n_layers_; ++layer) {
        for (CachedPart& part : parts_) part.abi.n_cached = part.cache->n_rows(layer);
        program_.run(layer, Program::Stage::input, n_rows_);
        strategy_.layer_begin(layer, seen);
        project(layer);
        if (observe_) show_to_observer(layer);
        if (recall_meter_.wants(layer)) show_to_meter(layer);
        strategy_.on_write(layer, seen);
        strategy_.attn_plan(layer, seen);
        read_guarded_in_full(layer);
        attend(layer);
        if (recall_meter_.is_due(number_, layer)) measure_recall(layer);
        strategy_.attn_done(layer, seen);
        program_.run(layer, Program::Stage::output, n_rows_);
        strategy_.ffn_begin(layer, seen);
        program_.run(layer, Program::Stage::feed_forward, n_rows_);
        strategy_.layer_end(layer, seen);
        for (CachedPart& part : parts_) store_.end_layer(*part.cache, layer, part.abi.n_rows);
    }
    make_logits(rows, on_logits);
    const double attended_bytes = count_selections();
    strategy_.step_end();

    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const bool prefill = std::any_of(step.parts.begin(), step.parts.end(), [](const auto& p) { return p.prefill; });
    (prefill ? statistics_.prefill_seconds : statistics_.decode_seconds) += took.count() - meter_seconds_;
    const double token_bytes = static_cast<double>(store_.layout().token_bytes());
    for (size_t i = 0; i < parts_.size(); ++i) {
        const kvp_kv_sequence& part = parts_[i].abi;
        if (part.phase == KVP_PHASE_DECODE) {
            statistics_.decode_tokens += static_cast<uint64_t>(part.n_rows);
            if (!prefill) {
                statistics_.timed_decode_tokens += static_cast<uint64_t>(part.n_rows);
                statistics_.kv_bytes += static_cast<double>(part.position) * token_bytes;
            }
        } else {
            statistics_.prefill_tokens += static_cast<uint64_t>(part.n_rows);
        }
        store_.commit(*parts_[i].cache, part.n_rows);
        step.parts[i].text->n_computed += part.n_rows;
    }
    if (!prefill) statistics_.attended_bytes += attended_bytes;
    if (!prefill) statistics_.index_bytes += strategy_.index_bytes();
    if (!prefill) statistics_.bytes_moved += static_cast<double>(transfers_.bytes() - moved_before - meter_bytes_);
    statistics_.rows_evicted = store_.rows_evicted();
    statistics_.transfer_wait_seconds = static_cast<double>(transfers_.wait_ns()) * 1e-9;
    store_.verify();
}

// Queries, keys and values of the step's rows, the latter two in the cache.
void StepRunner::project(uint32_t layer) {
    write_pointers_.clear();
    for (size_t i = 0; i < parts_.size(); ++i) {
        const CachedPart& part = parts_[i];
        store_.begin_write(*part.cache, layer, part.abi.n_rows);
        Items& made = items_[i];
        made.rows = store_.rows(*part.cache, layer);
        made.write = {KVP_HEAD(kvp_kv_write_item), &made.rows, part.abi.row_begin, part.abi.n_rows, part.abi.n_cached};
        write_pointers_.push_back(&made.write);
    }
    const kvp_kv_write_arguments arguments = {KVP_HEAD(kvp_kv_write_arguments), write_pointers_.data(),
                                              static_cast<uint32_t>(write_pointers_.size()), 0};
    if (program_.has(layer, Program::Stage::attention_input)) {
        program_.run(layer, Program::Stage::attention_input, n_rows_, &arguments);
    } else {
        program_.run(layer, Program::Stage::project, n_rows_);
        keep_before_rope();
        program_.run(layer, Program::Stage::rotate, n_rows_);
        const Tensor* operands[] = {&key_, &value_};
        device_.enqueue(kv_write_, operands, &arguments);
    }
    for (const CachedPart& part : parts_) store_.end_write(*part.cache, layer, part.abi.n_rows);
}

void StepRunner::keep_before_rope() {
    const auto keep = [&](const Tensor& from, const Tensor& to) {
        const kvp_copy_region region{from.address(), to.address(),
                                     static_cast<uint64_t>(n_rows_ * from.columns()) * sizeof(float)};
        device_.copy({&region, 1});
    };
    if (query_before_rope_.address() != 0) keep(query_, raw_query_);
    if (key_before_rope_.address() != 0) keep(key_, raw_key_);
}

void StepRunner::show_to_observer(uint32_t layer) {
    std::vector<float> query(static_cast<size_t>(n_rows_ * query_.columns()));
    std::vector<float> key(static_cast<size_t>(n_rows_ * key_.columns()));
    device_.download(query.data(), query_.address(), query.size() * sizeof(float));
    device_.download(key.data(), key_.address(), key.size() * sizeof(float));
    observe_(layer, query.data(), key.data(), n_rows_);
}

void StepRunner::attend_items(std::span<const kvp_attention_item* const> items) {
    const kvp_attention_arguments arguments = {KVP_HEAD(kvp_attention_arguments),
                                               items.data(),
                                               static_cast<uint32_t>(items.size()),
                                               n_heads_,
                                               scale_,
                                               exact_f32_ ? 1u : 0u};
    const Tensor* operands[] = {&query_, &attended_, &lse_};
    device_.enqueue(attention_, operands, &arguments);
}

void StepRunner::attend(uint32_t layer) {
    attention_pointers_.clear();
    for (size_t i = 0; i < parts_.size(); ++i) {
        CachedPart& part = parts_[i];
        Items& items = items_[i];
        if (part.abi.phase == KVP_PHASE_DECODE) {
            selections_.push_back({i, layer, part.abi.n_cached, selected_segments_.size(), part.segments.size()});
            selected_segments_.insert(selected_segments_.end(), part.segments.begin(), part.segments.end());
        }
        const auto item = [&](std::span<const kvp_segment* const> read, bool merge) {
            items.rows = store_.rows(*part.cache, layer);
            kvp_attention_item made{};
            made.head.struct_size = sizeof(made);
            made.rows = &items.rows;
            made.row_begin = part.abi.row_begin;
            made.n_rows = part.abi.n_rows;
            made.token_begin = part.abi.n_cached;
            made.segments = read.data();
            made.n_segments = static_cast<uint32_t>(read.size());
            made.merge = merge ? 1 : 0;
            return made;
        };
        if (store_.reads_in_pieces()) {
            store_.read(*part.cache, layer, part.segments, scratch_,
                        [&](std::span<const kvp_segment* const> read, bool merge) {
                            const kvp_attention_item one = item(read, merge);
                            const kvp_attention_item* pointer = &one;
                            attend_items({&pointer, 1});
                        });
        } else {
            items.segments.clear();
            for (const kvp_segment& segment : part.segments) items.segments.push_back(&segment);
            items.attention = item(items.segments, false);
            attention_pointers_.push_back(&items.attention);
        }
    }
    if (!attention_pointers_.empty()) attend_items(attention_pointers_);
}

// What the meter moves and how long it takes is not the run's.
class StepRunner::MeterTime {
public:
    explicit MeterTime(StepRunner& runner) : runner_(runner), moved_before_(runner.transfers_.bytes()) {}
    ~MeterTime() {
        runner_.meter_bytes_ += runner_.transfers_.bytes() - moved_before_;
        runner_.meter_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }
    MeterTime(const MeterTime&) = delete;
    MeterTime& operator=(const MeterTime&) = delete;

private:
    StepRunner& runner_;
    uint64_t moved_before_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::vector<float> StepRunner::host_rows(const Tensor& tensor, int64_t first, int64_t n) {
    std::vector<float> values(static_cast<size_t>(n * tensor.columns()));
    device_.download(values.data(), tensor.rows(first, n).address(), values.size() * sizeof(float));
    return values;
}

void StepRunner::show_to_meter(uint32_t layer) {
    const MeterTime time(*this);
    for (const CachedPart& part : parts_) {
        const std::vector<float> keys = host_rows(key_, part.abi.row_begin, part.abi.n_rows);
        recall_meter_.add_rows(part, layer, keys, host_rows(value_, part.abi.row_begin, part.abi.n_rows));
    }
}

void StepRunner::measure_recall(uint32_t layer) {
    const MeterTime time(*this);
    for (const CachedPart& part : parts_) {
        if (part.abi.phase != KVP_PHASE_DECODE) continue;
        const std::vector<float> query = host_rows(query_, part.abi.row_begin, 1);
        recall_meter_.measure(number_, store_, part, layer, query, host_rows(attended_, part.abi.row_begin, 1), scale_);
    }
}

// Where the guard says so, a decoding sequence reads all rows that its cache has.
void StepRunner::read_guarded_in_full(uint32_t layer) {
    for (CachedPart& part : parts_) {
        if (part.abi.phase != KVP_PHASE_DECODE || !recall_meter_.is_dense(part.abi.id, layer)) continue;
        kvp_segment all{};
        all.head.struct_size = sizeof(all);
        all.form = KVP_SEGMENT_RANGE;
        all.flags = KVP_SEGMENT_CAUSAL;
        all.end = part.abi.n_cached + part.abi.n_rows;
        part.segments.assign(1, all);
    }
}

double StepRunner::count_selections() {
    const PageLayout& layout = store_.layout();
    const uint32_t kv_heads = layout.kv_heads;
    double attended_bytes = 0;
    const bool selects = strategy_.dense_layers() < n_layers_;
    for (const Selection& selection : selections_) {
        const CachedPart& part = parts_[selection.part];
        const bool counts_here = !selects || selection.layer >= strategy_.dense_layers();
        double rows = 0;
        for (const kvp_segment& segment :
             std::span(selected_segments_).subspan(selection.first_segment, selection.n_segments)) {
            if (segment.form == KVP_SEGMENT_RANGE) {
                rows += static_cast<double>(std::min(segment.end, selection.n_cached) - segment.begin);
            } else if (segment.form == KVP_SEGMENT_VIRTUAL) {
                const double value_bytes = segment.virtual_type == KVP_TYPE_F16 ? 2 : 4;
                attended_bytes += segment.virtual_count * 2.0 * layout.head_size * value_bytes * kv_heads;
            } else {
                const KvStore::Lists lists = store_.lists(segment);
                double sum = 0;
                for (int32_t count : lists.counts) sum += count;
                rows += sum / kv_heads * (segment.form == KVP_SEGMENT_PAGE_LIST ? segment.page_tokens : 1);
                if (strategy_.wants_selected() && segment.form == KVP_SEGMENT_ROW_LIST) {
                    strategy_.selected(part, selection.layer, lists);
                }
            }
        }
        attended_bytes += rows * kv_heads * static_cast<double>(layout.row_bytes());
        if (!counts_here) continue;
        statistics_.rows_read += rows;
        statistics_.rows_past += static_cast<double>(part.abi.position);
    }
    return attended_bytes;
}

void StepRunner::make_logits(std::span<const int64_t> rows,
                             const std::function<void(int64_t row, std::span<float> logits)>& on_logits) {
    const Graph& graph = program_.graph();
    const auto row_bytes = static_cast<uint64_t>(graph.values[graph.head_input].width) * sizeof(float);
    for (size_t first = 0; first < rows.size(); first += static_cast<size_t>(program_.head_rows())) {
        const size_t n = std::min(rows.size() - first, static_cast<size_t>(program_.head_rows()));
        head_copies_.clear();
        for (size_t i = 0; i < n; ++i) {
            head_copies_.push_back({program_.value(graph.residual, 1, rows[first + i]).address(),
                                    program_.value(graph.head_input, 1, static_cast<int64_t>(i)).address(), row_bytes});
        }
        device_.copy(head_copies_);
        program_.run_head(static_cast<int64_t>(n));
        const kvp_address logits = program_.value(graph.logits, static_cast<int64_t>(n)).address();
        float* values = reinterpret_cast<float*>(logits);
        if (!device_.reads_host_memory()) {
            logits_.resize(n * vocabulary_);
            device_.download(logits_.data(), logits, logits_.size() * sizeof(float));
            values = logits_.data();
        }
        for (size_t i = 0; i < n; ++i) on_logits(rows[first + i], {values + i * vocabulary_, vocabulary_});
    }
}

}  // namespace kvplane
