// Speed of the cpu plugin's ops on the shapes of SmolLM2-135M: width 576, 9 / 3 heads of 64, feed-forward 1536, 30
// layers, vocabulary 49152; K-quants, which come in blocks of 256, on width 768 and feed-forward 2048.
// KVPLANE_BENCH_THREADS sets the threads (default 2), KVPLANE_CPU the instruction set, KVPLANE_BENCH_PLUGIN another build
// of the plugin, to compare two in turn.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include "support/random_weights.h"

namespace {

using namespace kvplane::test;

DeviceHarness& harness() {
    const char* threads = std::getenv("KVPLANE_BENCH_THREADS");
    const char* level = std::getenv("KVPLANE_CPU");
    const char* plugin = std::getenv("KVPLANE_BENCH_PLUGIN");
    static DeviceHarness made(plugin != nullptr ? plugin : KVPLANE_CPU_PLUGIN,
                              threads != nullptr ? std::atoi(threads) : 2, level != nullptr ? level : "");
    return made;
}

// kvp.linear of several outputs over one input, repeated over enough copies of the weights to leave the caches.
void linear(benchmark::State& state, const std::string& format, std::vector<int64_t> outputs, int64_t width,
            int copies) {
    const int64_t rows = state.range(0);
    const auto attributes = structure<kvp_linear_attributes>();
    std::vector<RandomWeights> weights;
    std::vector<Tensor> tensors;
    std::vector<const kvp_tensor*> constants;
    double bytes = 0;
    double operations = 0;
    for (const int64_t output : outputs) {
        weights.push_back(random_weights(format, output, width, 1));
        bytes += copies * static_cast<double>(weights.back().bytes.size());
        operations += copies * 2.0 * static_cast<double>(output * width * rows);
    }
    for (const RandomWeights& weight : weights) tensors.push_back(weight.tensor());
    for (const Tensor& tensor : tensors) constants.push_back(tensor.get());
    std::vector<DeviceHarness::Plan> plans;  // each packs a copy of its own
    for (int copy = 0; copy < copies; ++copy) {
        plans.push_back(harness().prepare("kvp.linear/1", &attributes, constants));
    }
    const auto x = random_floats(static_cast<size_t>(rows * width), 2);
    struct alignas(64) Line {  // as device memory is: a store that straddles two lines costs twice
        float values[16];
    };
    std::vector<std::vector<Line>> out;
    std::vector<Tensor> operands;
    operands.push_back(Tensor::f32(x, {rows, width}));
    for (const int64_t output : outputs) out.emplace_back(static_cast<size_t>((rows * output + 15) / 16));
    for (size_t i = 0; i < outputs.size(); ++i) {
        operands.emplace_back(out[i].data(), std::vector<int64_t>{rows, outputs[i]}, DLDataType{kDLFloat, 32, 1});
    }
    std::vector<const kvp_tensor*> pointers;
    for (const Tensor& operand : operands) pointers.push_back(operand.get());
    for (auto _ : state) {
        for (const auto& plan : plans) {
            harness().table().op_enqueue(harness().queue(), plan.get(), pointers.data(),
                                         static_cast<uint32_t>(pointers.size()), nullptr);
        }
    }
    const auto rounds = static_cast<double>(state.iterations());
    state.counters["GB/s"] = benchmark::Counter(bytes * rounds / 1e9, benchmark::Counter::kIsRate);
    state.counters["GOP/s"] = benchmark::Counter(operations * rounds / 1e9, benchmark::Counter::kIsRate);
}

// Bytes on huge pages, as the core's tiers are: on small ones the processor stops running ahead every 4 KiB.
class HugePages {
public:
    explicit HugePages(size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
        data_ = static_cast<uint8_t*>(std::aligned_alloc(kPage, bytes_));
        if (data_ == nullptr) throw std::bad_alloc();
        madvise(data_, bytes_, MADV_HUGEPAGE);
        std::memset(data_, 0x21, bytes_);
    }
    ~HugePages() { std::free(data_); }
    HugePages(const HugePages&) = delete;
    HugePages& operator=(const HugePages&) = delete;

    uint8_t* data() const { return data_; }

private:
    static constexpr size_t kPage = size_t{2} << 20;
    size_t bytes_;
    uint8_t* data_;
};

// One sequence's cached rows of one layer after another, in groups of 16 tokens as pages of 64 lay them out.
struct Cache {
    Cache(int64_t n_tokens, int64_t n_kv_heads, int64_t head_size, int copies)
        : bytes(static_cast<size_t>(copies * (n_tokens + 63) / 64 * 64 * n_kv_heads * head_size * 4)) {
        const int64_t n_groups = (n_tokens + 15) / 16;
        for (int copy = 0; copy < copies; ++copy) {
            for (int64_t head = 0; head < n_kv_heads; ++head) {
                for (int64_t group = 0; group < n_groups; ++group) {
                    const int64_t at = (copy * n_groups / 4 * 4 + group / 4 * 4) * n_kv_heads + head * 4 + group % 4;
                    groups.push_back(reinterpret_cast<uint64_t>(bytes.data()) +
                                     static_cast<uint64_t>(at * 16 * head_size * 4));
                }
            }
        }
        for (int copy = 0; copy < copies; ++copy) {
            auto made = structure<kvp_rows>();
            made.groups = reinterpret_cast<kvp_address>(groups.data() + copy * n_groups * n_kv_heads);
            made.groups_stride = static_cast<uint64_t>(n_groups);
            made.n_kv_heads = static_cast<uint32_t>(n_kv_heads);
            made.head_size = static_cast<uint32_t>(head_size);
            made.group_tokens = 16;
            made.type = KVP_TYPE_F16;
            rows.push_back(made);
        }
    }
    HugePages bytes;
    std::vector<uint64_t> groups;
    std::vector<kvp_rows> rows;
};

void attention(benchmark::State& state) {
    const int64_t n_rows = state.range(0);
    const int64_t depth = state.range(1);
    constexpr int kCopies = 30;
    Cache cache((depth + n_rows + 63) / 64 * 64, 3, 64, kCopies);
    const auto q = random_floats(static_cast<size_t>(n_rows * 576), 3);
    std::vector<float> out(q.size());
    std::vector<float> lse(static_cast<size_t>(n_rows * 9));
    const Tensor operands[] = {Tensor::f32(q, {n_rows, 576}), Tensor::f32(out, {n_rows, 576}),
                               Tensor::f32(lse, {n_rows, 9})};
    const auto plan = harness().prepare("kvp.attention/1");
    auto segment = structure<kvp_segment>();
    segment.form = KVP_SEGMENT_RANGE;
    segment.flags = KVP_SEGMENT_CAUSAL;
    segment.end = depth + n_rows;
    const kvp_segment* segments[] = {&segment};
    for (auto _ : state) {
        for (int copy = 0; copy < kCopies; ++copy) {
            auto item = structure<kvp_attention_item>();
            item.rows = &cache.rows[static_cast<size_t>(copy)];
            item.n_rows = n_rows;
            item.token_begin = depth;
            item.segments = segments;
            item.n_segments = 1;
            const kvp_attention_item* items[] = {&item};
            auto arguments = structure<kvp_attention_arguments>();
            arguments.items = items;
            arguments.n_items = 1;
            arguments.n_heads = 9;
            arguments.scale = 0.125f;
            harness().run(plan, {operands[0], operands[1], operands[2]}, &arguments);
        }
    }
    const double pairs = static_cast<double>(n_rows * depth + n_rows * (n_rows + 1) / 2) * kCopies;
    state.counters["GB/s"] =
        benchmark::Counter(static_cast<double>((depth + n_rows) * 3 * 256 * kCopies * state.iterations()) / 1e9,
                           benchmark::Counter::kIsRate);
    state.counters["GOP/s"] = benchmark::Counter(pairs * 9 * 64 * 4 * static_cast<double>(state.iterations()) / 1e9,
                                                 benchmark::Counter::kIsRate);
}

// Of a text of `tokens`, one in `every` of its pages of 64 listed; 1: all rows, without a list.
struct ListedPages {
    ListedPages(int64_t tokens, int64_t every)
        : n_listed(tokens / 64 / every), listed(every > 1), counts(3, static_cast<int32_t>(n_listed)) {
        for (int64_t head = 0; head < 3; ++head) {
            for (int64_t i = 0; i < n_listed; ++i) {
                pages.push_back(static_cast<int32_t>(i * every + (i * 7 + head * 3) % every));
            }
        }
    }
    template <typename Arguments>
    void give_to(Arguments& a) {
        a.page_tokens = 64;
        if (!listed) return;
        a.pages = address_of(pages);
        a.page_counts = address_of(counts);
        a.pages_stride = static_cast<uint64_t>(n_listed);
    }
    int64_t n_rows() const { return n_listed * 64; }  // of a head

    int64_t n_listed;
    bool listed;
    std::vector<int32_t> pages;
    std::vector<int32_t> counts;
};

constexpr int kLayers = 28;  // that select; each has keys, means and spreads of its own

void count_bytes(benchmark::State& state, int64_t bytes_per_layer) {
    state.counters["GB/s"] = benchmark::Counter(
        static_cast<double>(bytes_per_layer * kLayers * state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

void partial_scores(benchmark::State& state) {
    const int64_t tokens = state.range(0);
    ListedPages pages(tokens, state.range(1));
    constexpr int64_t kColumns = 48;
    const HugePages keys(static_cast<size_t>(kLayers * 3 * tokens * kColumns));
    auto scales = random_floats(static_cast<size_t>(3 * tokens), 4);
    std::vector<int32_t> columns;
    for (int64_t i = 0; i < 3 * kColumns; ++i) columns.push_back(static_cast<int32_t>(i % kColumns));
    std::vector<float> scores(static_cast<size_t>(3 * tokens));
    const auto q = random_floats(576, 6);
    auto a = structure<kvp_partial_scores_arguments>();
    a.columns = address_of(columns);
    a.scales = address_of(scales);
    a.scores = address_of(scores);
    a.capacity = a.scores_stride = static_cast<uint64_t>(tokens);
    a.n_tokens = tokens;
    a.type = KVP_TYPE_I8;
    a.n_columns = kColumns;
    a.n_heads = 9;
    a.n_kv_heads = 3;
    a.head_size = 64;
    a.group_score = KVP_GROUP_MASS;
    a.scale = 0.125f;
    pages.give_to(a);
    const Tensor operand = Tensor::f32(q, {1, 576});
    const auto plan = harness().prepare("kvp.partial_scores/1");
    for (auto _ : state) {
        for (int layer = 0; layer < kLayers; ++layer) {
            a.keys = reinterpret_cast<kvp_address>(keys.data() + layer * 3 * tokens * kColumns);
            harness().run(plan, {operand}, &a);
        }
    }
    count_bytes(state, 3 * pages.n_rows() * kColumns);
}

void select_pages(benchmark::State& state) {
    const int64_t n_pages = state.range(0) / 64;
    const HugePages means(static_cast<size_t>(kLayers * 3 * n_pages * 256));
    const HugePages spreads(static_cast<size_t>(kLayers * 3 * n_pages * 128));
    std::vector<int32_t> pages(static_cast<size_t>(3 * n_pages));
    std::vector<int32_t> counts(3);
    const auto q = random_floats(576, 6);
    auto a = structure<kvp_select_pages_arguments>();
    a.pages = address_of(pages);
    a.page_counts = address_of(counts);
    a.capacity = a.pages_stride = static_cast<uint64_t>(n_pages);
    a.n_tokens = state.range(0);
    a.n_heads = 9;
    a.n_kv_heads = 3;
    a.head_size = 64;
    a.page_tokens = 64;
    a.count = static_cast<uint32_t>(std::max<int64_t>(64, n_pages / 8));
    a.type = KVP_TYPE_F16;
    const Tensor operand = Tensor::f32(q, {1, 576});
    const auto plan = harness().prepare("kvp.select_pages/1");
    for (auto _ : state) {
        for (int layer = 0; layer < kLayers; ++layer) {
            a.means = reinterpret_cast<kvp_address>(means.data() + layer * 3 * n_pages * 256);
            a.spreads = reinterpret_cast<kvp_address>(spreads.data() + layer * 3 * n_pages * 128);
            harness().run(plan, {operand}, &a);
        }
    }
    count_bytes(state, 3 * n_pages * 256);
}

void select_rows(benchmark::State& state) {
    ListedPages pages(state.range(0), state.range(1));
    auto scores = random_floats(static_cast<size_t>(3 * pages.n_rows()), 7, 3.0f);
    for (float& x : scores) x = -std::abs(x);
    std::vector<int32_t> index(3 * 1024);
    std::vector<int32_t> counts(3);
    auto a = structure<kvp_select_rows_arguments>();
    a.scores = address_of(scores);
    a.scores_stride = static_cast<uint64_t>(pages.n_rows());
    a.index = address_of(index);
    a.index_stride = a.max_count = 1024;
    a.counts = address_of(counts);
    a.n_tokens = state.range(0);
    a.skip_begin = 4;
    a.skip_end = 32;
    a.n_kv_heads = 3;
    a.min_count = static_cast<uint32_t>(state.range(0) * 3 / 100);
    a.alpha = 0.2f;
    a.max_share = 0.2f;
    a.fixed_share = -1;
    pages.give_to(a);
    const auto plan = harness().prepare("kvp.select_rows/1");
    for (auto _ : state) harness().run(plan, {}, &a);
}

// What is left of a layer: norms, rotations, swiglu, cache write. `rows` of them.
void small_ops(benchmark::State& state) {
    const int64_t n = state.range(0);
    const auto weight = random_floats(576, 8);
    const auto frequencies = random_floats(32, 9);
    auto norm = structure<kvp_norm_attributes>();
    norm.epsilon = 1e-5f;
    auto rope = structure<kvp_rope_attributes>();
    rope.style = KVP_ROPE_INTERLEAVED;
    rope.head_size = rope.dimensions = 64;
    rope.magnitude = 1;
    const Tensor weights[] = {Tensor::f32(weight, {576}), Tensor::f32(frequencies, {32})};
    const auto norm_plan = harness().prepare("kvp.rms_norm/1", &norm, {weights[0].get()});
    const auto rope_plan = harness().prepare("kvp.rope/1", &rope, {weights[1].get()});
    const auto swiglu_plan = harness().prepare("kvp.swiglu/1");
    const auto write_plan = harness().prepare("kvp.kv_write/1");
    const auto x = random_floats(static_cast<size_t>(n * 1536), 10);
    std::vector<float> out(x.size());
    std::vector<int32_t> positions(static_cast<size_t>(n), 5);
    const Tensor wide = Tensor::f32(x, {n, 576});
    const Tensor wide_out = Tensor::f32(out, {n, 576});
    const Tensor k = Tensor::f32(x, {n, 192});
    const Tensor gate = Tensor::f32(x, {n, 1536});
    const Tensor hidden = Tensor::f32(out, {n, 1536});
    const Tensor at = Tensor::i32(positions);
    Cache cache((n + 63) / 64 * 64, 3, 64, 1);
    auto item = structure<kvp_kv_write_item>();
    item.rows = &cache.rows[0];
    item.n_rows = n;
    const kvp_kv_write_item* items[] = {&item};
    auto write = structure<kvp_kv_write_arguments>();
    write.items = items;
    write.n_items = 1;
    for (auto _ : state) {
        harness().run(norm_plan, {wide, wide_out});
        harness().run(rope_plan, {wide_out, at});
        harness().run(rope_plan, {k, at});
        harness().run(write_plan, {k, k}, &write);
        harness().run(norm_plan, {wide, wide_out});
        harness().run(swiglu_plan, {gate, gate, hidden});
    }
}

// Rows: one sequence, several decoded at once, a prompt.
void decode_and_prefill(benchmark::internal::Benchmark* made) {
    for (const int64_t rows : {1, 2, 4, 8, 16, 512}) made->Arg(rows);
    made->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);
}

// Tokens, and one in how many pages is looked at.
void short_and_long_text(benchmark::internal::Benchmark* made) {
    for (const auto& text : {std::vector<int64_t>{4096, 1}, {8192, 2}, {65536, 8}}) made->Args(text);
    made->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(linear, qkv_q4_1, "q4_1", {576, 192, 192}, 576, 300)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, out_q4_1, "q4_1", {576}, 576, 500)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, gate_up_q4_1, "q4_1", {1536, 1536}, 576, 90)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, down_q4_1, "q4_1", {576}, 1536, 180)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, head_q8_0, "q8_0", {49152}, 576, 4)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, gate_up_q4_0, "q4_0", {1536, 1536}, 576, 100)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, gate_up_q8_0, "q8_0", {1536, 1536}, 576, 50)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, gate_up_f16, "f16", {1536, 1536}, 576, 30)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, gate_up_q4_k, "q4_k", {2048, 2048}, 768, 50)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, gate_up_q5_k, "q5_k", {2048, 2048}, 768, 50)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, gate_up_q6_k, "q6_k", {2048, 2048}, 768, 40)->Apply(decode_and_prefill);
// A Llama of 1.1 billion weights: 2048 wide, feed-forward 5632; a few of its 22 layers.
BENCHMARK_CAPTURE(linear, gate_up_1b_q4_0, "q4_0", {5632, 5632}, 2048, 8)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, gate_up_1b_f16, "f16", {5632, 5632}, 2048, 3)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, down_1b_f16, "f16", {2048}, 5632, 6)->Apply(decode_and_prefill);
BENCHMARK_CAPTURE(linear, gate_up_1b_f32, "f32", {5632, 5632}, 2048, 2)->Apply(decode_and_prefill);
BENCHMARK(attention)
    ->Args({1, 0})
    ->Args({1, 64})
    ->Args({1, 512})
    ->Args({1, 8192})
    ->Args({512, 0})
    ->Args({512, 2048})
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(partial_scores)->Apply(short_and_long_text);
BENCHMARK(select_pages)->Apply(short_and_long_text);
BENCHMARK(select_rows)->Apply(short_and_long_text);
BENCHMARK(small_ops)->Arg(1)->Arg(512)->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
