// From logits to a token. The steps, in this order:
//   1. penalties, on the distinct tokens among the last `repeat_window` of `recent`:
//        repetition (CTRL): logit / p when positive, logit · p when negative
//        presence and frequency (OpenAI): logit − presence − frequency · occurrences
//   2. temperature 0: the greatest logit, the lowest id of equal ones, and nothing below
//   3. logit / temperature, softmax
//   4. top-k: the k likeliest tokens, lower ids first among equals
//   5. top-p: the shortest run of the likeliest ones whose share of what step 4 left reaches p, never none
//   6. min-p: those with at least p times the probability of the likeliest
//   7. one of the rest, by its share
//
// The same seed gives the same tokens on every machine, from the same logits: numbers come from std::mt19937_64, whose
// sequence the C++ standard fixes, one per token (none when greedy); probabilities are whole multiples of 2^-32 of the
// likeliest one's, so that their sums are exact in any order.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace kvplane {

struct SamplerOptions {
    double temperature = 0.0;        // ≥ 0
    int64_t top_k = 0;               // 0: off
    double top_p = 1.0;              // 0 … 1; 1: off
    double min_p = 0.0;              // 0 … 1; 0: off
    double repeat_penalty = 1.0;     // > 0; 1: off
    double presence_penalty = 0.0;   // 0: off
    double frequency_penalty = 0.0;  // 0: off
    int64_t repeat_window = 64;      // tokens; 0: no penalties
    uint64_t seed = 0;
};

// One sequence's sampler. Not for use from two threads at once.
class Sampler {
public:
    explicit Sampler(const SamplerOptions& options);

    // `logits`: one a token of the vocabulary; changed by the penalties. −∞ bans a token. `recent`: the tokens so far,
    // oldest first. Throws Error(runtime) on NaN, +∞, no token that may be taken, or a recent token outside the
    // vocabulary.
    int32_t sample(std::span<float> logits, std::span<const int32_t> recent);

private:
    struct Candidate {
        int32_t id;
        uint64_t weight;  // probability · 2^32 / the likeliest one's
    };

    void penalise(std::span<float> logits, std::span<const int32_t> recent);
    size_t keep_likeliest();
    uint64_t draw(uint64_t total);

    SamplerOptions options_;
    std::mt19937_64 generator_;
    std::vector<Candidate> candidates_;
    std::vector<int32_t> window_;
};

}  // namespace kvplane
