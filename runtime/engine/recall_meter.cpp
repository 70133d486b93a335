#include "engine/recall_meter.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvplane {

namespace {

// The tokens that each KV head saw.
std::vector<std::vector<int32_t>> visible_tokens(KvStore& store, const CachedPart& part, const ShadowLayer& shadow) {
    const uint32_t kv_heads = store.layout().kv_heads;
    const int64_t n_rows = part.abi.n_cached + part.abi.n_rows;
    std::vector<std::vector<int32_t>> visible(kv_heads);
    const auto see = [&](uint32_t head, int64_t begin, int64_t end) {
        for (int64_t row = begin; row < std::min(end, n_rows); ++row) visible[head].push_back(shadow.token(head, row));
    };
    for (const kvp_segment& segment : part.segments) {
        if (segment.form == KVP_SEGMENT_VIRTUAL) continue;
        if (segment.form == KVP_SEGMENT_RANGE) {
            for (uint32_t head = 0; head < kv_heads; ++head) see(head, segment.begin, segment.end);
            continue;
        }
        const int64_t unit = segment.form == KVP_SEGMENT_PAGE_LIST ? segment.page_tokens : 1;
        const int64_t last = segment.end > 0 ? segment.end : n_rows;
        const KvStore::Lists lists = store.lists(segment);
        for (uint32_t head = 0; head < kv_heads; ++head) {
            for (int32_t i = 0; i < lists.counts[head]; ++i) {
                const int64_t entry = lists.index[head * lists.stride + static_cast<uint64_t>(i)];
                see(head, std::max(segment.begin, entry * unit), std::min(last, (entry + 1) * unit));
            }
        }
    }
    for (std::vector<int32_t>& tokens : visible) std::sort(tokens.begin(), tokens.end());
    return visible;
}

double dot(const float* a, const float* b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += double{a[i]} * double{b[i]};
    return sum;
}

// Of the N greatest weights, the share that is among the N visible.
double recall_of(std::span<const float> weights, const std::vector<int32_t>& visible, std::vector<uint32_t>& order) {
    order.resize(weights.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto greatest = order.begin() + static_cast<std::ptrdiff_t>(visible.size());
    std::nth_element(order.begin(), greatest - 1, order.end(),
                     [&](uint32_t a, uint32_t b) { return weights[a] > weights[b]; });
    const auto hits = std::count_if(order.begin(), greatest, [&](uint32_t token) {
        return std::binary_search(visible.begin(), visible.end(), static_cast<int32_t>(token));
    });
    return static_cast<double>(hits) / static_cast<double>(visible.size());
}

}  // namespace

RecallMeter::RecallMeter(uint32_t first_layer, uint32_t n_layers, uint32_t kv_heads, uint32_t head_size)
    : first_layer_(first_layer < n_layers ? first_layer : 0),
      n_layers_(n_layers),
      kv_heads_(kv_heads),
      head_size_(head_size),
      width_(size_t{kv_heads} * head_size) {}

void RecallMeter::set_every(uint64_t every, uint32_t most_layers) {
    every_ = every;
    sampled_.clear();
    const uint32_t n = n_layers_ - first_layer_;
    const uint32_t wanted = every == 0 ? 0 : std::min(n, most_layers);
    for (uint32_t i = 0; i < wanted; ++i) sampled_.insert(first_layer_ + (2 * i + 1) * n / (2 * wanted));
    layers_.insert(sampled_.begin(), sampled_.end());
}

void RecallMeter::guard(double error, uint64_t every) {
    guard_error_ = error;
    guard_every_ = every;
    for (uint32_t layer = first_layer_; layer < n_layers_; ++layer) layers_.insert(layer);
}

bool RecallMeter::is_due(uint64_t step, uint32_t layer) const {
    if (!layers_.contains(layer)) return false;
    const bool sampled = every_ > 0 && step % every_ == 0 && sampled_.contains(layer);
    return sampled || (guard_every_ > 0 && step % guard_every_ == 0);
}

void RecallMeter::add_rows(const CachedPart& part, uint32_t layer, std::span<const float> keys,
                           std::span<const float> values) {
    shadow_.add(part.abi.id, layer, part.abi.position, part.abi.n_cached, keys, values, width_);
}

void RecallMeter::measure(uint64_t step, KvStore& store, const CachedPart& part, uint32_t layer,
                          std::span<const float> query, std::span<const float> output, float scale) {
    const auto n = static_cast<size_t>(part.abi.position + 1);
    const ShadowLayer* shadow = shadow_.find(part.abi.id, layer);
    if (shadow == nullptr || shadow->keys.size() != n * width_) return;
    const size_t d = head_size_, heads = query.size() / d, group = heads / kv_heads_;
    RecallSample sample{step, part.abi.id, layer, part.abi.position, visible_tokens(store, part, *shadow), {}, 0};
    sample.weights.resize(heads * n);
    const bool counts = every_ > 0 && step % every_ == 0 && sampled_.contains(layer);
    std::vector<uint32_t> order;
    std::vector<double> dense(d);
    double all_difference = 0, all_dense = 0;
    for (size_t head = 0; head < heads; ++head) {
        const size_t at = head / group * d;  // of the KV head in a token's row
        const std::span<float> weights = std::span(sample.weights).subspan(head * n, n);
        double most = -INFINITY, sum = 0;
        for (size_t token = 0; token < n; ++token) {
            const double score = dot(&query[head * d], &shadow->keys[token * width_ + at], d) * scale;
            weights[token] = static_cast<float>(score);
            most = std::max(most, score);
        }
        for (float& weight : weights) sum += weight = static_cast<float>(std::exp(weight - most));
        std::fill(dense.begin(), dense.end(), 0.0);
        for (size_t token = 0; token < n; ++token) {
            weights[token] = static_cast<float>(weights[token] / sum);
            for (size_t i = 0; i < d; ++i)
                dense[i] += double{weights[token]} * double{shadow->values[token * width_ + at + i]};
        }
        double difference = 0, size = 0;
        for (size_t i = 0; i < d; ++i) {
            difference += std::pow(output[head * d + i] - dense[i], 2);
            size += dense[i] * dense[i];
        }
        all_difference += difference;
        all_dense += size;
        const std::vector<int32_t>& visible = sample.visible[head / group];
        if (!counts || visible.empty()) continue;
        double mass = 0;
        for (int32_t token : visible) mass += double{weights[static_cast<size_t>(token)]};
        sums_.recall += recall_of(weights, visible, order);
        sums_.mass += mass;
        sums_.error += size > 0 ? std::sqrt(difference / size) : 0;
        ++sums_.samples;
    }
    sample.error = all_dense > 0 ? std::sqrt(all_difference / all_dense) : 0;
    if (guard_every_ > 0 && step % guard_every_ == 0) {
        ++guard_checks_;
        const bool passed = sample.error > guard_error_ && dense_.insert({part.abi.id, layer}).second;
        guard_turned_dense_ += passed ? 1 : 0;
    }
    if (on_sample && counts) on_sample(sample);
}

void RecallMeter::fork(uint64_t from, uint64_t to) {
    shadow_.fork(from, to);
    for (uint32_t layer = 0; layer < n_layers_; ++layer) {
        if (is_dense(from, layer)) dense_.insert({to, layer});
    }
}

void RecallMeter::close(uint64_t sequence) {
    shadow_.close(sequence);
    std::erase_if(dense_, [&](const auto& one) { return one.first == sequence; });
}

}  // namespace kvplane
