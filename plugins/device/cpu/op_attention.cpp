// kvp.attention/1. The work is cut into tiles (sequence, some query rows, a KV head or, of few queries, several); where
// those are too few for the threads, as in decode, each is cut again along its cached rows, and the parts are merged by
// their sums of exponentials.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "attention_tile.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kLeastTileQueries = 48;  // three vectors of the widest level
constexpr int64_t kMostTileQueries = 384;  // unpacking a block of rows then costs little beside using it
constexpr int64_t kTilesPerThread = 6;
constexpr int64_t kLeastPartRows =
    256;  // of all its heads: below, waking a thread and merging cost more than they save
constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

struct Job {
    Tile tile;
    int64_t row;  // first row in q, out, lse
    int64_t head;
    bool merge;
    int64_t first_part;
    int64_t n_parts;
};

class Attention {
public:
    Attention(kvp_queue& queue, const Operands& operands, const kvp_attention_arguments& arguments)
        : queue_(queue), n_heads_(arguments.n_heads), exact_f32_(arguments.exact_f32 != 0) {
        operands.expect(3);
        q_ = operands.f32(0, "q");
        out_ = operands.f32(1, "out", q_.rows, q_.columns);
        lse_ = operands.f32(2, "lse", q_.rows, n_heads_);
        if (arguments.n_items > 0 && arguments.items == nullptr) invalid("attention has no items");
        segments_.reserve(arguments.n_items);
        int64_t n_queries = 0;
        for (uint32_t i = 0; i < arguments.n_items; ++i) n_queries += n_heads_ * check(item(arguments, i)).n_rows;
        const int64_t wanted = n_queries / (queue.device.pool.n_threads() * kTilesPerThread);
        const int64_t tile_queries =
            std::clamp(wanted / kLeastTileQueries * kLeastTileQueries, kLeastTileQueries, kMostTileQueries);
        for (uint32_t i = 0; i < arguments.n_items; ++i) add(item(arguments, i), arguments.scale, tile_queries);
    }

    void run() {
        split();
        if (jobs_.empty()) return;
        ThreadPool& pool = queue_.device.pool;
        const int64_t scratch = tile_scratch_floats(most_queries_, head_size_);
        float* scratches = queue_.workspace.floats.get(scratch * pool.n_threads());
        // One result a thread for jobs that are done at once, and one a part for those that are merged later.
        const bool whole = parts_.size() == jobs_.size();
        results_ = queue_.workspace.more_floats.get(
            (pool.n_threads() + (whole ? 0 : static_cast<int64_t>(parts_.size()))) * result_floats());
        std::atomic<int64_t> missing{-1};
        const auto n_parts = static_cast<int64_t>(parts_.size());
        pool.run(n_parts, [&](int64_t index, uint32_t worker) {
            const int64_t part = n_parts - 1 - index;  // causal: the last are the longest
            const Job& job = jobs_[static_cast<size_t>(parts_[static_cast<size_t>(part)].job)];
            Tile tile = job.tile;
            tile.first_slot = parts_[static_cast<size_t>(part)].first_slot;
            tile.last_slot = parts_[static_cast<size_t>(part)].last_slot;
            const Partial partial = job.n_parts == 1 ? result(worker) : part_result(part);
            const int64_t lost = attend(queue_.device.kernels, tile, scratches + worker * scratch, partial);
            if (lost >= 0) missing.store(lost, std::memory_order_relaxed);
            if (job.n_parts == 1) finish(job, partial);
        });
        if (missing >= 0) {
            invalid("attention reads cached row " + std::to_string(missing.load()) +
                    ", which is not in the group table");
        }
        if (whole) return;
        const auto merge = [&](int64_t index, uint32_t) {
            const Job& job = jobs_[static_cast<size_t>(index)];
            if (job.n_parts == 1) return;
            merge_parts(job);
            finish(job, part_result(job.first_part));
        };
        const auto n_jobs = static_cast<int64_t>(jobs_.size());
        if (most_queries_ > kFewQueries * kMostTileHeads) {
            pool.run(n_jobs, merge);
        } else {  // less work than a region costs
            for (int64_t i = 0; i < n_jobs; ++i) merge(i, 0);
        }
    }

private:
    struct Part {
        int64_t job;
        int64_t first_slot;
        int64_t last_slot;
    };

    static const kvp_attention_item& item(const kvp_attention_arguments& arguments, uint32_t i) {
        return structure<kvp_attention_item>(arguments.items[i], "an attention item");
    }

    const kvp_attention_item& check(const kvp_attention_item& item) const {
        if (item.row_begin < 0 || item.n_rows < 0 || item.row_begin + item.n_rows > q_.rows) {
            invalid("an attention item names rows outside q");
        }
        return item;
    }

    void add(const kvp_attention_item& item, float scale, int64_t tile_queries) {
        segments_.push_back(std::make_unique<Segments>(item));
        const Segments& segments = *segments_.back();
        const CachedRows& rows = segments.rows();
        const int64_t d = rows.head_size();
        if (n_heads_ <= 0 || n_heads_ % rows.n_kv_heads() != 0 || q_.columns != n_heads_ * d) {
            invalid("q of width " + std::to_string(q_.columns) + " is not " + std::to_string(n_heads_) + " heads of " +
                    std::to_string(d) + " over " + std::to_string(rows.n_kv_heads()) + " KV heads");
        }
        const int64_t group = n_heads_ / rows.n_kv_heads();
        const int64_t tile_rows = std::max<int64_t>(1, tile_queries / group);
        head_size_ = std::max(head_size_, d);
        for (int64_t row = 0; row < item.n_rows; row += tile_rows) {
            const int64_t n_rows = std::min(tile_rows, item.n_rows - row);
            const int64_t heads = n_rows * group <= kFewQueries ? kMostTileHeads : 1;
            for (int64_t head = 0; head < rows.n_kv_heads(); head += heads) {
                const int64_t at = item.row_begin + row;
                Tile tile{&segments,  head,   std::min(heads, rows.n_kv_heads() - head),
                          group,      n_rows, item.token_begin + row,
                          0,          0,      q_.row(at) + head * group * d,
                          q_.columns, scale,  exact_f32_};
                for (int64_t i = 0; i < tile.n_kv_heads; ++i) {
                    tile.last_slot = std::max(tile.last_slot, segments.n_slots(head + i));
                }
                most_queries_ = std::max(most_queries_, tile.n_queries());
                jobs_.push_back({tile, at, head * group, item.merge != 0, 0, 1});
            }
        }
    }

    void split() {
        const int64_t threads = queue_.device.pool.n_threads();
        int64_t rows = 0;
        for (const Job& job : jobs_) rows += job.tile.last_slot * job.tile.n_kv_heads;
        const bool cut = threads > 1 && static_cast<int64_t>(jobs_.size()) < 4 * threads;
        const int64_t part_rows = std::max(kLeastPartRows, rows / (threads * 8));
        for (size_t i = 0; i < jobs_.size(); ++i) {
            Job& job = jobs_[i];
            const Tile& tile = job.tile;
            int64_t size = std::max<int64_t>(1, tile.last_slot);
            const int64_t n_parts = cut ? tile.last_slot * tile.n_kv_heads / part_rows : 1;
            if (n_parts > 1) {
                size = (tile.last_slot + n_parts - 1) / n_parts;
                const int64_t step = size >= 4 * kBlockRows ? kBlockRows : 16;
                size = (size + step - 1) / step * step;
            }
            job.first_part = static_cast<int64_t>(parts_.size());
            job.n_parts = std::max<int64_t>(1, (tile.last_slot + size - 1) / size);
            for (int64_t part = 0; part < job.n_parts; ++part) {
                parts_.push_back({static_cast<int64_t>(i), part * size, std::min(tile.last_slot, (part + 1) * size)});
            }
        }
    }

    int64_t result_floats() const { return padded_queries(most_queries_) * (head_size_ + 2); }

    Partial result(int64_t index) const {
        float* base = results_ + index * result_floats();
        const int64_t padded = padded_queries(most_queries_);
        return {base + 2 * padded, base, base + padded};
    }
    Partial part_result(int64_t part) const { return result(queue_.device.pool.n_threads() + part); }

    void merge_parts(const Job& job) const {
        const int64_t d = job.tile.segments->rows().head_size();
        const Partial total = part_result(job.first_part);
        for (int64_t q = 0; q < job.tile.n_queries(); ++q) {
            float maximum = kNegativeInfinity;
            for (int64_t part = 0; part < job.n_parts; ++part) {
                maximum = std::max(maximum, part_result(job.first_part + part).maxima[q]);
            }
            if (maximum == kNegativeInfinity) continue;
            for (int64_t part = 0; part < job.n_parts; ++part) {
                const Partial from = part_result(job.first_part + part);
                const float weight = std::exp(from.maxima[q] - maximum);
                const float old = part == 0 ? 0.0f : 1.0f;
                total.sums[q] = old * total.sums[q] + weight * from.sums[q];
                for (int64_t i = 0; i < d; ++i) {
                    total.out[q * d + i] = old * total.out[q * d + i] + weight * from.out[q * d + i];
                }
            }
            total.maxima[q] = maximum;
        }
    }

    // Divides, and merges with what out and lse held if the item says so.
    void finish(const Job& job, const Partial& from) const {
        const int64_t d = job.tile.segments->rows().head_size();
        const int64_t n = job.tile.head_queries();
        const int64_t group = job.tile.group;
        for (int64_t q = 0; q < job.tile.n_queries(); ++q) {
            const int64_t row = job.row + q % n / group;
            const int64_t head = job.head + q / n * group + q % group;
            float* out = out_.row(row) + head * d;
            float& lse = lse_.row(row)[head];
            const float here = from.sums[q] > 0 ? from.maxima[q] + std::log(from.sums[q]) : kNegativeInfinity;
            const float before = job.merge ? lse : kNegativeInfinity;
            const float* result = from.out + q * d;
            if (here == kNegativeInfinity) {
                if (before != kNegativeInfinity) continue;
                std::fill_n(out, d, 0.0f);
                lse = kNegativeInfinity;
            } else if (before == kNegativeInfinity) {
                const float weight = 1 / from.sums[q];
                for (int64_t i = 0; i < d; ++i) out[i] = weight * result[i];
                lse = here;
            } else {
                const float most = std::max(here, before);
                const float all = most + std::log(std::exp(here - most) + std::exp(before - most));
                const float new_weight = std::exp(here - all) / from.sums[q];
                const float old_weight = std::exp(before - all);
                for (int64_t i = 0; i < d; ++i) out[i] = old_weight * out[i] + new_weight * result[i];
                lse = all;
            }
        }
    }

    kvp_queue& queue_;
    const int64_t n_heads_;
    const bool exact_f32_;
    Matrix<float> q_{};
    Matrix<float> out_{};
    Matrix<float> lse_{};
    std::vector<std::unique_ptr<Segments>> segments_;
    std::vector<Job> jobs_;
    std::vector<Part> parts_;
    int64_t most_queries_ = 0;
    int64_t head_size_ = 0;
    float* results_ = nullptr;
};

void run(kvp_queue& queue, const Operands& operands, const void* arguments) {
    Attention(queue, operands, structure<kvp_attention_arguments>(arguments, "the argument struct of attention")).run();
}

}  // namespace

const Operation kAttention = [] {
    Operation made = plain_operation<run>("kvp.attention/1");
    made.check = [](const Device&, const Request& request) -> uint64_t {
        request.expect_constants(0);
        if (!request.has_attributes()) return 0;
        const auto& rows = request.attributes<kvp_row_attributes>();
        if (kvp_row_bytes(rows.type, rows.head_size) == 0) unsupported("no such type of cached rows");
        if (rows.head_size % 16 != 0) unsupported("the head size must be a multiple of 16");
        return 0;
    };
    return made;
}();

}  // namespace kvplane::cpu
