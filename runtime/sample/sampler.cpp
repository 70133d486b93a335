#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace kvplane {

namespace {

constexpr double full_weight = 4294967296.0;     // 2^32: the likeliest token's
constexpr size_t largest_vocabulary = 1u << 21;  // sums of weights stay within 2^53, where doubles are exact
constexpr size_t first_sorted = 256;             // how many of the likeliest are put in order before more are needed

[[noreturn]] void fail(const std::string& what) {
    throw Error(ErrorKind::runtime, "cannot sample: " + what);
}

// The greatest logit's id, the lowest of equal ones; refuses what is not to be compared.
size_t greatest(std::span<const float> logits) {
    if (logits.empty() || logits.size() > largest_vocabulary) {
        fail("there are " + std::to_string(logits.size()) + " logits, 1 to 2097152 are possible");
    }
    size_t best = 0;
    for (size_t id = 0; id < logits.size(); ++id) {
        if (std::isnan(logits[id]) || logits[id] == std::numeric_limits<float>::infinity()) {
            fail("the logit of token " + std::to_string(id) + " is " +
                 (std::isnan(logits[id]) ? "not a number" : "infinite") +
                 "; the model file or a device kernel is at fault");
        }
        if (logits[id] > logits[best]) best = id;
    }
    if (logits[best] == -std::numeric_limits<float>::infinity()) fail("every token is banned");
    return best;
}

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options), generator_(options.seed) {}

int32_t Sampler::sample(std::span<float> logits, std::span<const int32_t> recent) {
    penalise(logits, recent);
    const size_t best = greatest(logits);
    if (options_.temperature == 0.0) return static_cast<int32_t>(best);

    candidates_.clear();
    uint64_t total = 0;
    for (size_t id = 0; id < logits.size(); ++id) {
        const double distance = static_cast<double>(logits[best]) - static_cast<double>(logits[id]);
        const auto weight =
            static_cast<uint64_t>(std::nearbyint(full_weight * std::exp(-distance / options_.temperature)));
        if (weight == 0) continue;
        candidates_.push_back({static_cast<int32_t>(id), weight});
        total += weight;
    }
    const bool all = options_.top_k == 0 && options_.top_p >= 1.0 && options_.min_p == 0.0;
    const size_t kept = all ? candidates_.size() : keep_likeliest();
    if (!all) {
        total = 0;
        for (size_t i = 0; i < kept; ++i) total += candidates_[i].weight;
    }
    uint64_t rest = draw(total);
    for (size_t i = 0; i < kept; ++i) {
        if (rest < candidates_[i].weight) return candidates_[i].id;
        rest -= candidates_[i].weight;
    }
    return candidates_[kept - 1].id;
}

void Sampler::penalise(std::span<float> logits, std::span<const int32_t> recent) {
    const bool off =
        options_.repeat_penalty == 1.0 && options_.presence_penalty == 0.0 && options_.frequency_penalty == 0.0;
    if (off || options_.repeat_window <= 0) return;
    const size_t length = std::min(recent.size(), static_cast<size_t>(options_.repeat_window));
    const auto last = recent.last(length);
    window_.assign(last.begin(), last.end());
    std::sort(window_.begin(), window_.end());
    for (size_t first = 0; first < window_.size();) {
        const int32_t id = window_[first];
        size_t end = first;
        while (end < window_.size() && window_[end] == id) ++end;
        if (id < 0 || static_cast<size_t>(id) >= logits.size()) {
            fail("recent token " + std::to_string(id) + " is outside the vocabulary of " +
                 std::to_string(logits.size()));
        }
        double logit = static_cast<double>(logits[static_cast<size_t>(id)]);
        logit = logit > 0.0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
        logit -= options_.presence_penalty + options_.frequency_penalty * static_cast<double>(end - first);
        logits[static_cast<size_t>(id)] = static_cast<float>(logit);
        first = end;
    }
}

// Puts the tokens that the steps 4 to 6 keep in front, likeliest first, and says how many they are. Sorts no more
// than needed: a vocabulary holds 10^5 tokens, and a few hundred have nearly all of the probability.
size_t Sampler::keep_likeliest() {
    const auto likelier = [](const Candidate& a, const Candidate& b) {
        return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
    };
    size_t limit = candidates_.size();
    if (options_.top_k > 0 && static_cast<uint64_t>(options_.top_k) < limit) {
        limit = static_cast<size_t>(options_.top_k);
        std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(limit - 1),
                         candidates_.end(), likelier);
    }
    uint64_t total = 0;
    for (size_t i = 0; i < limit; ++i) total += candidates_[i].weight;
    const double wanted = options_.top_p * static_cast<double>(total);
    const double least = options_.min_p * full_weight;

    size_t sorted = 0;
    uint64_t reached = 0;
    for (size_t kept = 0; kept < limit; ++kept) {
        if (kept == sorted) {
            const size_t end = std::min(limit, sorted == 0 ? first_sorted : sorted * 4);
            const auto begin = candidates_.begin();
            std::partial_sort(begin + static_cast<ptrdiff_t>(sorted), begin + static_cast<ptrdiff_t>(end),
                              begin + static_cast<ptrdiff_t>(limit), likelier);
            sorted = end;
        }
        const bool enough = kept > 0 && options_.top_p < 1.0 && static_cast<double>(reached) >= wanted;
        if (enough || static_cast<double>(candidates_[kept].weight) < least) return kept;
        reached += candidates_[kept].weight;
    }
    return limit;
}

// A whole number from 0 to total − 1: the generator's upper 53 bits as a fraction of 1, times the total.
uint64_t Sampler::draw(uint64_t total) {
    constexpr double unit = 1.0 / 9007199254740992.0;  // 2^-53
    const double fraction = static_cast<double>(generator_() >> 11) * unit;
    return std::min(total - 1, static_cast<uint64_t>(fraction * static_cast<double>(total)));
}

}  // namespace kvplane
