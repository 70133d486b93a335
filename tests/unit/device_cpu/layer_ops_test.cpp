// The ops that stand for a part of a layer, against plain arithmetic in double precision.
#include <cmath>

#include "cached_sequence.h"

namespace kvplane::test {
namespace {

using Doubles = std::vector<double>;

Doubles norm(const std::vector<float>& x, const std::vector<float>& weight, double epsilon) {
    const size_t width = weight.size();
    Doubles out(x.size());
    for (size_t row = 0; row < x.size(); row += width) {
        double squares = 0;
        for (size_t i = 0; i < width; ++i) squares += double{x[row + i]} * x[row + i];
        const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
        for (size_t i = 0; i < width; ++i) out[row + i] = x[row + i] * scale * weight[i];
    }
    return out;
}

Doubles product(const Doubles& x, const RandomWeights& weights) {
    const auto width = static_cast<size_t>(weights.columns);
    Doubles out;
    for (size_t row = 0; row < x.size(); row += width) {
        for (size_t column = 0; column < static_cast<size_t>(weights.rows); ++column) {
            double sum = 0;
            for (size_t i = 0; i < width; ++i) sum += x[row + i] * weights.values[column * width + i];
            out.push_back(sum);
        }
    }
    return out;
}

// Root mean square of found - expected over that of expected.
double relative_error(const Doubles& found, const Doubles& expected) {
    double error = 0;
    double size = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
        error += (found[i] - expected[i]) * (found[i] - expected[i]);
        size += expected[i] * expected[i];
    }
    return found.size() == expected.size() && size > 0 ? std::sqrt(error / size) : 1e30;
}

Doubles widen(const std::vector<float>& x) {
    return {x.begin(), x.end()};
}

// An int8 activation is off by a 254th of its block's largest value at most: under 1 % of a sum of many. Of a product of
// two such sums twice that, and the sum of those is rounded once more.
constexpr double kInt8Error = 0.01;
constexpr double kFloatError = 3e-6;

class CpuLayerOps : public CpuDevice {
protected:
    void check_feed_forward(const std::string& format, const std::string& down_format, int64_t width, int64_t hidden,
                            int64_t rows, bool exact) {
        const auto gate = random_weights(format, hidden, width, 1);
        const auto up = random_weights(format, hidden, width, 2);
        const auto down = random_weights(down_format, width, hidden, 3);
        const auto weight = random_floats(static_cast<size_t>(width), 4);
        auto x = random_floats(static_cast<size_t>(rows * width), 5, 0.01f);
        const auto before = x;
        auto attributes = structure<kvp_feed_forward_attributes>();
        attributes.epsilon = 1e-4f;
        attributes.exact_f32 = exact;
        const Tensor constants[] = {Tensor::f32(weight, {width}), gate.tensor(), up.tensor(), down.tensor()};
        const auto plan =
            device().prepare("kvp.feed_forward/1", &attributes,
                             {constants[0].get(), constants[1].get(), constants[2].get(), constants[3].get()});
        device().run(plan, {Tensor::f32(x, {rows, width})});

        const Doubles normed = norm(before, weight, 1e-4f);
        Doubles gated = product(normed, gate);
        const Doubles ups = product(normed, up);
        for (size_t i = 0; i < gated.size(); ++i) gated[i] *= ups[i] / (1 + std::exp(-gated[i]));
        Doubles added = widen(x);
        for (size_t i = 0; i < added.size(); ++i) added[i] -= before[i];
        const bool quantised = !exact && (format[0] == 'q' || down_format[0] == 'q');
        EXPECT_LE(relative_error(added, product(gated, down)), quantised ? 3 * kInt8Error : kFloatError)
            << format << " " << down_format << " " << width << " x " << hidden << ", " << rows << " rows";
    }

    struct Heads {
        int64_t query, kv, size;
    };

    // Two sequences: the first `split` rows continue one, the rest but one row the other; the last row is nobody's.
    void check_attention_input(const std::string& format, const Heads& heads, uint32_t style, uint32_t type,
                               int64_t rows, bool exact) {
        constexpr int64_t kWidth = 96;
        constexpr double kEpsilon = 0.01f;
        const int64_t d = heads.size;
        const int64_t outputs[] = {heads.query * d, heads.kv * d, heads.kv * d};
        std::vector<RandomWeights> weights;
        for (uint32_t i = 0; i < 3; ++i) weights.push_back(random_weights(format, outputs[i], kWidth, i + 1));
        const auto weight = random_floats(kWidth, 4);
        const auto dimensions = static_cast<size_t>(d / 2 / 2 * 2);
        std::vector<float> frequencies;
        for (size_t i = 0; i < dimensions / 2; ++i) frequencies.push_back(1.0f / static_cast<float>(1 + i * i));
        const auto x = random_floats(static_cast<size_t>(rows * kWidth), 5, 3.0f);
        const int64_t split = rows / 2;
        std::vector<int32_t> positions;
        for (int64_t row = 0; row < rows; ++row) {
            positions.push_back(static_cast<int32_t>(row < split ? 7 + row : row - split));
        }
        auto attributes = structure<kvp_attention_input_attributes>();
        attributes.epsilon = static_cast<float>(kEpsilon);
        attributes.exact_f32 = exact;
        attributes.style = style;
        attributes.head_size = static_cast<uint32_t>(d);
        attributes.dimensions = static_cast<uint32_t>(dimensions);
        attributes.magnitude = 1.25f;
        std::vector<Tensor> constants;
        constants.push_back(Tensor::f32(weight, {kWidth}));
        for (const auto& w : weights) constants.push_back(w.tensor());
        constants.push_back(Tensor::f32(frequencies, {static_cast<int64_t>(frequencies.size())}));
        std::vector<const kvp_tensor*> pointers;
        for (const auto& constant : constants) pointers.push_back(constant.get());
        const auto plan = device().prepare("kvp.attention_input/1", &attributes, pointers);

        CachedSequence caches[] = {{7 + split, heads.kv, d, 4, type, 1}, {rows, heads.kv, d, 4, type, 2}};
        kvp_kv_write_item items[2] = {structure<kvp_kv_write_item>(), structure<kvp_kv_write_item>()};
        items[0].rows = caches[0].rows();
        items[0].n_rows = split;
        items[0].token_begin = 7;
        items[1].rows = caches[1].rows();
        items[1].row_begin = split;
        items[1].n_rows = rows - split - 1;
        const kvp_kv_write_item* item_pointers[] = {&items[0], &items[1]};
        auto arguments = structure<kvp_kv_write_arguments>();
        arguments.items = item_pointers;
        arguments.n_items = 2;
        std::vector<std::vector<float>> out;
        for (const int64_t output : outputs) out.emplace_back(static_cast<size_t>(rows * output), NAN);
        device().run(plan,
                     {Tensor::f32(x, {rows, kWidth}), Tensor::i32(positions), Tensor::f32(out[0], {rows, outputs[0]}),
                      Tensor::f32(out[1], {rows, outputs[1]}), Tensor::f32(out[2], {rows, outputs[2]})},
                     &arguments);

        const Doubles normed = norm(x, weight, kEpsilon);
        const double bound = !exact && format[0] == 'q' ? kInt8Error : kFloatError;
        for (size_t i = 0; i < 3; ++i) {
            Doubles expected = product(normed, weights[i]);
            if (i < 2) turn(expected, d, frequencies, positions, style, 1.25);
            EXPECT_LE(relative_error(widen(out[i]), expected), bound)
                << format << " output " << i << ", " << rows << " rows, head size " << d << ", style " << style;
        }
        for (int64_t row = 0; row + 1 < rows; ++row) {
            const auto& cache = caches[row < split ? 0 : 1];
            const int64_t token = row < split ? 7 + row : row - split;
            for (int64_t head = 0; head < heads.kv; ++head) {
                for (int64_t i = 0; i < 2 * d; ++i) {
                    const auto at = static_cast<size_t>((row * heads.kv + head) * d + i % d);
                    const float value = out[i < d ? 1 : 2][at];
                    ASSERT_EQ(cache.get(head, token, i), type == KVP_TYPE_F16 ? half_value(nearest_half(value)) : value)
                        << "row " << row << " head " << head << " element " << i;
                }
            }
        }
        const CachedSequence untouched(rows, heads.kv, d, 4, type, 2);
        const int64_t free_row = rows - split - 1;  // may hold NaN, which equals nothing
        const double before = untouched.get(0, free_row, 0);
        const double after = caches[1].get(0, free_row, 0);
        EXPECT_TRUE(after == before || (std::isnan(after) && std::isnan(before)))
            << "a row that no sequence has was written";
    }

    static void turn(Doubles& x, int64_t head_size, const std::vector<float>& frequencies,
                     const std::vector<int32_t>& positions, uint32_t style, double magnitude) {
        const auto d = static_cast<size_t>(head_size);
        const size_t n_pairs = frequencies.size();
        const size_t width = x.size() / positions.size();
        for (size_t head = 0; head < x.size(); head += d) {
            for (size_t j = 0; j < n_pairs; ++j) {
                const double angle = positions[head / width] * double{frequencies[j]};
                double& a = x[head + (style == KVP_ROPE_HALVES ? j : 2 * j)];
                double& b = x[head + (style == KVP_ROPE_HALVES ? j + n_pairs : 2 * j + 1)];
                const double turned = magnitude * (a * std::cos(angle) - b * std::sin(angle));
                b = magnitude * (a * std::sin(angle) + b * std::cos(angle));
                a = turned;
            }
        }
    }
};

TEST_P(CpuLayerOps, gates_and_adds_for_every_format) {
    for (const std::string format : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"}) {
        for (const int64_t rows : {1, 2, 5, 70}) check_feed_forward(format, format, 64, 96, rows, false);
        check_feed_forward(format, format, 64, 96, 3, true);
    }
}

TEST_P(CpuLayerOps, gates_widths_that_fill_no_unit_and_more_rows_than_a_part) {
    check_feed_forward("f32", "f32", 40, 50, 3, false);
    check_feed_forward("f16", "f16", 33, 17, 1, false);
    check_feed_forward("q4_1", "q4_1", 32, 320, 300, false);
    check_feed_forward("f32", "f32", 24, 200, 300, false);
}

TEST_P(CpuLayerOps, gates_where_only_one_side_is_quantised) {
    check_feed_forward("f16", "q8_0", 48, 64, 3, false);
    check_feed_forward("q4_0", "f32", 64, 48, 3, false);
}

TEST_P(CpuLayerOps, projects_turns_and_writes_every_format) {
    for (const std::string format : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"}) {
        for (const int64_t rows : {2, 3, 20}) {
            check_attention_input(format, {4, 2, 32}, KVP_ROPE_HALVES, KVP_TYPE_F16, rows, false);
        }
        check_attention_input(format, {3, 1, 16}, KVP_ROPE_INTERLEAVED, KVP_TYPE_F32, 5, true);
    }
}

TEST_P(CpuLayerOps, projects_odd_numbers_of_heads_and_more_rows_than_a_part) {
    check_attention_input("q8_0", {9, 3, 64}, KVP_ROPE_INTERLEAVED, KVP_TYPE_F16, 2, false);
    check_attention_input("q4_1", {5, 5, 48}, KVP_ROPE_HALVES, KVP_TYPE_F32, 300, false);
}

TEST_P(CpuLayerOps, refuses_what_does_not_fit) {
    const auto gate = random_weights("f32", 32, 64, 1);
    const auto down = random_weights("f32", 64, 32, 1);
    const auto weight = random_floats(64, 1);
    const auto attributes = structure<kvp_feed_forward_attributes>();
    const Tensor norm_tensor = Tensor::f32(weight, {64});
    const Tensor gate_tensor = gate.tensor();
    const Tensor down_tensor = down.tensor();
    auto answer = structure<kvp_op_answer>();
    const kvp_tensor* n = norm_tensor.get();
    const kvp_tensor* g = gate_tensor.get();
    const kvp_tensor* dn = down_tensor.get();
    EXPECT_EQ(device().support("kvp.feed_forward/1", &attributes, {n, g, g, dn}, &answer), KVP_OK);
    EXPECT_EQ(device().support("kvp.feed_forward/1", &attributes, {n, g, g, g}, &answer), KVP_UNSUPPORTED);
    EXPECT_EQ(device().support("kvp.feed_forward/1", &attributes, {n, g, g}, &answer), KVP_UNSUPPORTED);

    auto input = structure<kvp_attention_input_attributes>();
    input.style = KVP_ROPE_HALVES;
    input.head_size = 32;
    input.dimensions = 32;
    const auto frequencies = random_floats(16, 1);
    const Tensor frequency_tensor = Tensor::f32(frequencies, {16});
    const kvp_tensor* f = frequency_tensor.get();
    EXPECT_EQ(device().support("kvp.attention_input/1", &input, {n, g, g, g, f}, &answer), KVP_OK);
    input.head_size = 24;  // no whole panels
    input.dimensions = 24;
    EXPECT_EQ(device().support("kvp.attention_input/1", &input, {n, g, g, g, f}, &answer), KVP_UNSUPPORTED);
}

KVPLANE_ALL_LEVELS(CpuLayerOps);

}  // namespace
}  // namespace kvplane::test
