// Rotary position embedding: from what a model file says to the angles that the kernels use.
// At position p, pair i of a head turns by p * inverse_frequencies[i].
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/gguf.h"

namespace kvplane {

struct RopeSpec {
    bool interleaved = true;  // pairs are (2i, 2i+1); otherwise (i, i + dimensions/2)
    uint32_t dimensions = 0;  // leading values of a head that are turned; even
    float base = 10000.0f;
    std::vector<float> inverse_frequencies;  // dimensions/2; scaling already applied
    float magnitude = 1.0f;                  // multiplies cos and sin (YaRN)
};

struct RopeScaling {
    enum class Kind { none, linear, llama3, yarn };
    Kind kind = Kind::none;
    double factor = 1;
    double original_context = 0;  // llama3, yarn: context length of the training before scaling
    double low_frequency = 1;     // llama3
    double high_frequency = 4;    // llama3
    double beta_fast = 32;        // yarn
    double beta_slow = 1;         // yarn
    double attention = 1;         // yarn: further factor of the magnitude
};

// Fills inverse_frequencies and magnitude from `dimensions` and `base`. `divisors` (dimensions/2 values, or none)
// divide the frequencies after scaling; Llama 3 files carry their scaling in this form.
void apply_rope_scaling(RopeSpec& rope, const RopeScaling& scaling, std::span<const float> divisors);

// Reads PREFIX.rope.* and the tensor rope_freqs.weight. The head size must have been checked against a tensor before,
// since it bounds what is allocated here. Throws Error(model) for a scaling that is unknown or out of range.
RopeSpec read_rope(const GgufFile& file, std::string_view prefix, uint32_t head_size, uint32_t context_length,
                   bool interleaved);

}  // namespace kvplane
