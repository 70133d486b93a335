// kvp.partial_keys/1: cached keys, projected on the chosen columns and quantised.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cached_rows.h"
#include "op.h"
#include "partial_rows.h"
#include "projection.h"

namespace kvplane::cpu {
namespace {

constexpr int64_t kChunk = 64;  // rows projected at once, whole tiles

class PartialKeys {
public:
    PartialKeys(kvp_queue& queue, const kvp_partial_keys_arguments& a)
        : queue_(queue),
          a_(a),
          cached_(a.rows),
          out_(a.keys, a.capacity, a.type, a.n_columns),
          n_(a.n_columns),
          projection_(a.projection, a.columns, cached_.head_size(), n_, cached_.n_kv_heads()) {
        if (out_.has_codes() && (a.mean == 0 || a.scales == 0))
            invalid("quantised partial keys need a mean and scales");
        if (a.token_begin < 0 || a.token_end < a.token_begin || a.token_end > out_.capacity) {
            invalid("partial_keys names rows outside its capacity");
        }
        cached_.expect(a.token_begin, a.token_end);
    }

    void run() {
        const int64_t d = cached_.head_size();
        ThreadPool& pool = queue_.device.pool;
        const bool find_scales = a_.type == KVP_TYPE_I4 && a_.find_scales != 0;
        const int64_t each = kChunk * (d + n_);
        float* scratch = queue_.workspace.floats.get(each * pool.n_threads());
        const int64_t n_heads = cached_.n_kv_heads();
        float* most = find_scales ? queue_.workspace.more_floats.get(pool.n_threads() * n_heads * n_) : nullptr;
        if (find_scales) std::fill_n(most, pool.n_threads() * n_heads * n_, 0.0f);
        pool.run((a_.token_end - a_.token_begin + kChunk - 1) / kChunk, [&](int64_t part, uint32_t worker) {
            const int64_t token = a_.token_begin + part * kChunk;
            const int64_t n_rows = std::min(kChunk, a_.token_end - token);
            float* own = scratch + worker * each;
            for (int64_t head = 0; head < n_heads; ++head) {
                const float* projected = project(head, token, n_rows, own);
                if (find_scales) {
                    raise(projected, n_rows, most + (worker * n_heads + head) * n_);
                } else {
                    store(head, token, n_rows, projected);
                }
            }
        });
        if (find_scales) raise_scales(most, pool.n_threads(), n_heads);
    }

private:
    const float* project(int64_t head, int64_t token, int64_t n_rows, float* scratch) const {
        const int64_t d = cached_.head_size();
        const Kernels& kernels = queue_.device.kernels;
        float* projected = scratch + kChunk * d;
        const uint8_t* rows[kChunk];
        for (int64_t row = 0; row < n_rows; ++row) rows[row] = cached_.row(head, token + row);
        cached_.widen(kernels, rows, n_rows, scratch);
        projection_.apply(kernels, head, scratch, n_rows, projected);
        if (out_.has_codes()) {
            const float* mean = reinterpret_cast<const float*>(a_.mean) + head * n_;
            for (int64_t row = 0; row < n_rows; ++row) {
                for (int64_t i = 0; i < n_; ++i) projected[row * n_ + i] -= mean[i];
            }
        }
        return projected;
    }

    void raise(const float* projected, int64_t n_rows, float* most) const {
        for (int64_t row = 0; row < n_rows; ++row) {
            for (int64_t i = 0; i < n_; ++i) most[i] = std::max(most[i], std::abs(projected[row * n_ + i]));
        }
    }

    void raise_scales(const float* most, int64_t n_workers, int64_t n_heads) const {
        auto* scales = reinterpret_cast<float*>(a_.scales);
        for (int64_t worker = 0; worker < n_workers; ++worker) {
            for (int64_t i = 0; i < n_heads * n_; ++i)
                scales[i] = std::max(scales[i], most[worker * n_heads * n_ + i] / 7);
        }
    }

    void store(int64_t head, int64_t token, int64_t n_rows, const float* x) const {
        const auto format = static_cast<size_t>(out_.format);
        float* scales = reinterpret_cast<float*>(a_.scales);
        if (out_.format == KeyFormat::I8) scales += head * out_.capacity;
        if (out_.format == KeyFormat::I4) scales += head * n_;
        queue_.device.kernels.pack_keys[format](x, n_rows, n_, scales, out_.tiles(head), token);
    }

    kvp_queue& queue_;
    const kvp_partial_keys_arguments& a_;
    const CachedRows cached_;
    const PartialRows out_;
    const int64_t n_;
    const Projection projection_;
};

void run(kvp_queue& queue, const Operands& operands, const void* pointer) {
    operands.expect(0);
    PartialKeys(queue, structure<kvp_partial_keys_arguments>(pointer, "the argument struct of partial_keys")).run();
}

}  // namespace

const Operation kPartialKeys = plain_operation<run>("kvp.partial_keys/1");

}  // namespace kvplane::cpu
