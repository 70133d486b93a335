#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace kvplane {

namespace {

// Llama 3.1: waves shorter than the original context / high stay, those longer than it / low slow down by the factor,
// a linear blend between.
double llama3_frequency(double frequency, const RopeScaling& scaling) {
    const double wavelength = 2 * std::numbers::pi / frequency;
    const double low = scaling.low_frequency, high = scaling.high_frequency;
    if (wavelength < scaling.original_context / high) return frequency;
    if (wavelength > scaling.original_context / low) return frequency / scaling.factor;
    const double keep = (scaling.original_context / wavelength - low) / (high - low);
    return frequency * (keep + (1 - keep) / scaling.factor);
}

// The share of slowing for each pair in YaRN (Peng et al. 2023, §3.2): 0 for pairs that turn more than beta_fast times
// in the original context, 1 for fewer than beta_slow times, a ramp between the two pair indices.
class YarnRamp {
public:
    YarnRamp(const RopeSpec& rope, const RopeScaling& scaling) {
        const double dimensions = rope.dimensions;
        const auto pair_that_turns = [&](double times) {
            return dimensions * std::log(scaling.original_context / (times * 2 * std::numbers::pi)) /
                   (2 * std::log(static_cast<double>(rope.base)));
        };
        low_ = std::max(0.0, std::floor(pair_that_turns(scaling.beta_fast)));
        high_ = std::min(dimensions - 1, std::ceil(pair_that_turns(scaling.beta_slow)));
    }
    double at(double pair) const { return std::clamp((pair - low_) / std::max(0.001, high_ - low_), 0.0, 1.0); }

private:
    double low_, high_;
};

class RopeReader {
public:
    RopeReader(const GgufFile& file, std::string_view prefix) : file_(file), prefix_(std::string(prefix) + ".rope.") {}

    RopeSpec read(uint32_t head_size, uint32_t context_length, bool interleaved) const {
        RopeSpec rope;
        rope.interleaved = interleaved;
        rope.dimensions = file_.find_u32(prefix_ + "dimension_count").value_or(head_size);
        if (rope.dimensions == 0 || rope.dimensions % 2 != 0 || rope.dimensions > head_size) {
            file_.fail("key '" + prefix_ + "dimension_count' is " + std::to_string(rope.dimensions) +
                       "; it must be even and at most the head size " + std::to_string(head_size));
        }
        rope.base = file_.find_f32(prefix_ + "freq_base").value_or(10000.0f);
        if (!(rope.base > 1.0f) || !std::isfinite(rope.base)) {
            file_.fail("key '" + prefix_ + "freq_base' is " + std::to_string(rope.base) + "; it must be above 1");
        }
        apply_rope_scaling(rope, read_scaling(context_length), read_divisors(rope.dimensions / 2));
        return rope;
    }

private:
    double positive(const std::string& name, double fallback) const {
        const std::string key = prefix_ + name;
        const auto value = file_.find_f32(key);
        if (!value) return fallback;
        if (!(*value > 0) || !std::isfinite(*value)) {
            file_.fail("key '" + key + "' is " + std::to_string(*value) + "; it must be a positive number");
        }
        return *value;
    }

    RopeScaling read_scaling(uint32_t context_length) const {
        RopeScaling scaling;
        const std::string_view kind = file_.find_string(prefix_ + "scaling.type").value_or("linear");
        if (kind == "none") return scaling;
        if (kind == "linear") {
            scaling.kind = RopeScaling::Kind::linear;
        } else if (kind == "llama3") {
            scaling.kind = RopeScaling::Kind::llama3;
        } else if (kind == "yarn") {
            scaling.kind = RopeScaling::Kind::yarn;
        } else {
            file_.fail("key '" + prefix_ + "scaling.type' is '" + std::string(kind) +
                       "', which is not supported; none, linear, llama3 and yarn are");
        }
        // scale_linear is the name that old files use. Files without scaling write 0 as well as nothing.
        const char* key = file_.find(prefix_ + "scaling.factor") ? "scaling.factor" : "scale_linear";
        if (file_.find_f32(prefix_ + key).value_or(0.0f) != 0.0f) scaling.factor = positive(key, 1);
        scaling.original_context = file_.find_u32(prefix_ + "scaling.original_context_length").value_or(context_length);
        scaling.low_frequency = positive("scaling.low_freq_factor", scaling.low_frequency);
        scaling.high_frequency = positive("scaling.high_freq_factor", scaling.high_frequency);
        scaling.beta_fast = positive("scaling.yarn_beta_fast", scaling.beta_fast);
        scaling.beta_slow = positive("scaling.yarn_beta_slow", scaling.beta_slow);
        scaling.attention = positive("scaling.attn_factor", scaling.attention);
        if (scaling.original_context < 1) {
            file_.fail("key '" + prefix_ + "scaling.original_context_length' is 0; it must be positive");
        }
        if (scaling.kind == RopeScaling::Kind::llama3 && !(scaling.high_frequency > scaling.low_frequency)) {
            file_.fail("key '" + prefix_ + "scaling.high_freq_factor' must be above low_freq_factor");
        }
        return scaling;
    }

    std::vector<float> read_divisors(uint64_t pairs) const {
        const TensorView* tensor = file_.find_tensor("rope_freqs.weight");
        if (!tensor) return {};
        if (tensor->type != TensorType::f32 || tensor->elements() != pairs) {
            file_.fail("tensor 'rope_freqs.weight' is " + std::string(tensor_type_info(tensor->type).name) + " of " +
                       shape_text(*tensor) + "; expected f32 of " + std::to_string(pairs));
        }
        std::vector<float> divisors(pairs);
        dequantize_row(TensorType::f32, tensor->data, divisors.data(), divisors.size());
        for (const float divisor : divisors) {
            if (!(divisor > 0) || !std::isfinite(divisor)) {
                file_.fail("tensor 'rope_freqs.weight' holds " + std::to_string(divisor) +
                           "; its values must be positive numbers");
            }
        }
        return divisors;
    }

    const GgufFile& file_;
    std::string prefix_;
};

}  // namespace

void apply_rope_scaling(RopeSpec& rope, const RopeScaling& scaling, std::span<const float> divisors) {
    const size_t pairs = rope.dimensions / 2;
    rope.inverse_frequencies.resize(pairs);
    rope.magnitude = 1.0f;
    const bool yarn = scaling.kind == RopeScaling::Kind::yarn;
    if (yarn)
        rope.magnitude = static_cast<float>(scaling.attention * (1 + 0.1 * std::log(std::max(1.0, scaling.factor))));
    for (size_t i = 0; i < pairs; ++i) {
        double frequency = std::pow(static_cast<double>(rope.base), -2.0 * static_cast<double>(i) / rope.dimensions);
        switch (scaling.kind) {
            case RopeScaling::Kind::none: break;
            case RopeScaling::Kind::linear: frequency /= scaling.factor; break;
            case RopeScaling::Kind::llama3: frequency = llama3_frequency(frequency, scaling); break;
            case RopeScaling::Kind::yarn: {
                const double slow = YarnRamp(rope, scaling).at(static_cast<double>(i));
                frequency *= slow / scaling.factor + (1 - slow);
                break;
            }
        }
        if (!divisors.empty()) frequency /= static_cast<double>(divisors[i]);
        rope.inverse_frequencies[i] = static_cast<float>(frequency);
    }
}

RopeSpec read_rope(const GgufFile& file, std::string_view prefix, uint32_t head_size, uint32_t context_length,
                   bool interleaved) {
    return RopeReader(file, prefix).read(head_size, context_length, interleaved);
}

}  // namespace kvplane
