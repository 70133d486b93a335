#include <map>
#include <nlohmann/json.hpp>

#include "cached_sequence.h"
#include "support/json_text.h"

namespace kvplane::test {
namespace {

class CpuSmallOps : public CpuDevice {};

TEST_P(CpuSmallOps, embeds_rows_of_every_format) {
    const std::vector<int32_t> ids = {5, 0, 16, 5};
    for (const std::string format : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1"}) {
        const auto table = random_weights(format, 17, 64, 1);
        const Tensor constant = table.tensor();
        std::vector<float> out(4 * 64);
        const auto plan = device().prepare("kvp.embed/1", nullptr, {constant.get()});
        device().run(plan, {Tensor::i32(ids), Tensor::f32(out, {4, 64})});
        for (size_t row = 0; row < 4; ++row) {
            for (size_t i = 0; i < 64; ++i) {
                const double expected = table.values[static_cast<size_t>(ids[row]) * 64 + i];
                ASSERT_NEAR(out[row * 64 + i], expected, 1e-6 * std::abs(expected) + 1e-8) << format;
            }
        }
        const std::vector<int32_t> outside = {0, 17, 0, 0};
        EXPECT_EQ(device().try_run(plan, {Tensor::i32(outside), Tensor::f32(out, {4, 64})}), KVP_ERROR_INVALID);
        EXPECT_NE(device().error().find("17"), std::string::npos);
    }
}

// Golden values: tests/reference/make_model_golden.py, from the Python package gguf; some scales are extreme.
TEST_P(CpuSmallOps, embeds_blocks_exactly_as_the_gguf_package_reads_them) {
    const std::map<int, std::string> formats = {{2, "q4_0"},  {3, "q4_1"},  {8, "q8_0"},
                                                {12, "q4_k"}, {13, "q5_k"}, {14, "q6_k"}};
    size_t seen = 0;
    for (const auto& golden : read_json(KVPLANE_GOLDEN_BLOCKS)) {
        const auto format = formats.find(golden["type"].get<int>());
        if (format == formats.end()) continue;
        ++seen;
        const auto expected = golden["values"].get<std::vector<float>>();
        const auto hex = golden["bytes"].get<std::string>();
        std::vector<uint8_t> bytes;
        for (size_t i = 0; i < hex.size(); i += 2) {
            bytes.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
        }
        const auto width = static_cast<int64_t>(expected.size());
        const Tensor constant = Tensor::blocks(bytes, 1, "gguf." + format->second + "/1", width);
        const auto plan = device().prepare("kvp.embed/1", nullptr, {constant.get()});
        std::vector<float> out(expected.size());
        const std::vector<int32_t> ids = {0};
        device().run(plan, {Tensor::i32(ids), Tensor::f32(out, {1, width})});
        EXPECT_EQ(out, expected) << format->second;
    }
    EXPECT_EQ(seen, formats.size());
}

TEST_P(CpuSmallOps, normalises_rows) {
    for (const int64_t width : {1, 7, 32, 96, 576}) {
        for (const int64_t rows : {1, 3, 33}) {
            const auto x = random_floats(static_cast<size_t>(rows * width), 2);
            const auto weight = random_floats(static_cast<size_t>(width), 3);
            std::vector<float> out(x.size());
            auto attributes = structure<kvp_norm_attributes>();
            attributes.epsilon = 1e-3f;
            const Tensor constant = Tensor::f32(weight, {width});
            const auto plan = device().prepare("kvp.rms_norm/1", &attributes, {constant.get()});
            device().run(plan, {Tensor::f32(x, {rows, width}), Tensor::f32(out, {rows, width})});
            for (int64_t row = 0; row < rows; ++row) {
                double squares = 0;
                for (int64_t i = 0; i < width; ++i) squares += std::pow(x[static_cast<size_t>(row * width + i)], 2);
                const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-3f);
                for (int64_t i = 0; i < width; ++i) {
                    const auto at = static_cast<size_t>(row * width + i);
                    const double expected = x[at] * scale * weight[static_cast<size_t>(i)];
                    ASSERT_NEAR(out[at], expected, 2e-6 * std::abs(expected) + 1e-9);
                }
            }
        }
    }
}

TEST_P(CpuSmallOps, gates_by_the_sigmoid_without_overflow) {
    for (const int64_t width : {1, 13, 64, 5000}) {
        auto gate = random_floats(static_cast<size_t>(2 * width), 4, 5.0f);
        gate[0] = -200;
        if (width > 1) gate[1] = 200;
        const auto up = random_floats(gate.size(), 5);
        std::vector<float> out(gate.size());
        device().run("kvp.swiglu/1",
                     {Tensor::f32(gate, {2, width}), Tensor::f32(up, {2, width}), Tensor::f32(out, {2, width})},
                     nullptr);
        for (size_t i = 0; i < out.size(); ++i) {
            const double expected = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
            ASSERT_NEAR(out[i], expected, 2e-6 * std::abs(expected) + 1e-30);
        }
    }
}

TEST_P(CpuSmallOps, rotates_pairs_of_both_styles_and_leaves_the_rest_of_the_head) {
    for (const uint32_t style : {KVP_ROPE_INTERLEAVED, KVP_ROPE_HALVES}) {
        for (const auto& [head_size, dimensions] :
             {std::pair<uint32_t, uint32_t>{16, 16}, {64, 64}, {80, 20}, {32, 6}}) {
            std::vector<float> frequencies(dimensions / 2);
            for (size_t i = 0; i < frequencies.size(); ++i) {
                frequencies[i] = static_cast<float>(std::pow(1e4, -2.0 * static_cast<double>(i) / dimensions));
            }
            auto attributes = structure<kvp_rope_attributes>();
            attributes.style = style;
            attributes.head_size = head_size;
            attributes.dimensions = dimensions;
            attributes.magnitude = 1.25f;
            const Tensor constant = Tensor::f32(frequencies, {static_cast<int64_t>(frequencies.size())});
            const auto plan = device().prepare("kvp.rope/1", &attributes, {constant.get()});
            for (const std::vector<int32_t>& positions :
                 {std::vector<int32_t>{0, 1, 131071}, {0, 1, 131071}, {7, 3, 90000}}) {
                const int64_t width = 3 * head_size;
                const auto before = random_floats(static_cast<size_t>(3 * width), 6);
                auto x = before;
                device().run(plan, {Tensor::f32(x, {3, width}), Tensor::i32(positions)});
                for (size_t head = 0; head < 9; ++head) {
                    const size_t base = head * head_size;
                    for (size_t i = 0; i < dimensions / 2; ++i) {
                        const size_t a = base + (style == KVP_ROPE_HALVES ? i : 2 * i);
                        const size_t b = style == KVP_ROPE_HALVES ? a + dimensions / 2 : a + 1;
                        const double angle = static_cast<double>(positions[head / 3]) * frequencies[i];
                        ASSERT_NEAR(x[a], 1.25 * (before[a] * std::cos(angle) - before[b] * std::sin(angle)), 2e-6);
                        ASSERT_NEAR(x[b], 1.25 * (before[a] * std::sin(angle) + before[b] * std::cos(angle)), 2e-6);
                    }
                    for (size_t i = dimensions; i < head_size; ++i) ASSERT_EQ(x[base + i], before[base + i]);
                }
            }
        }
    }
}

// Of two equally near bf16 the even one, by trying both neighbours.
double nearest_bfloat(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    const auto value = [](uint32_t upper) {
        const uint32_t wide = upper << 16;
        float made;
        std::memcpy(&made, &wide, 4);
        return double{made};
    };
    const uint32_t low = bits >> 16;
    const double below = std::abs(x - value(low)), above = std::abs(value(low + 1) - x);
    return below < above || (below == above && low % 2 == 0) ? value(low) : value(low + 1);
}

// What a code of ops.h stands for, of column i of a row of d.
double stored_in_groups(const float* row, int64_t d, int64_t i, float most) {
    const int64_t begin = i / 64 * 64;
    const int64_t end = std::min(d, begin + 64);
    float low = *std::min_element(row + begin, row + end);
    float high = *std::max_element(row + begin, row + end);
    if (end < begin + 64) {
        low = std::min(low, 0.0f);
        high = std::max(high, 0.0f);
    }
    const auto minimum = static_cast<float>(half_value(nearest_half(low)));
    const float wanted = high > low ? most / (high - low) : 1.0f;
    const auto scale = static_cast<float>(half_value(nearest_half(std::min(wanted, 65504.0f))));
    const float code = std::clamp(std::nearbyint((row[i] - minimum) * scale), 0.0f, most);
    return double{code} / scale + minimum;
}

TEST_P(CpuSmallOps, writes_keys_and_values_rounded_to_nearest_even) {
    for (const uint32_t type : kRowTypes) {
        for (const int64_t d : {16, 80}) {
            CachedSequence cached(40, 3, d, 4, type, 1);
            auto k = random_floats(static_cast<size_t>(20 * 3 * d), 8, 4.0f);
            auto v = random_floats(k.size(), 9);
            const float edges[] = {2049.0f,  2051.0f,  65504.0f, 1e-5f, 3e-8f,
                                   2.98e-8f, -6.1e-5f, 0.0f,     -0.0f, 1.00048828125f};
            std::copy(std::begin(edges), std::end(edges), k.begin() + 3 * d);
            auto item = structure<kvp_kv_write_item>();
            item.rows = cached.rows();
            item.row_begin = 1;
            item.n_rows = 19;
            item.token_begin = 21;
            const kvp_kv_write_item* items[] = {&item};
            auto arguments = structure<kvp_kv_write_arguments>();
            arguments.items = items;
            arguments.n_items = 1;
            device().run("kvp.kv_write/1", {Tensor::f32(k, {20, 3 * d}), Tensor::f32(v, {20, 3 * d})}, &arguments);
            for (int64_t row = 1; row < 20; ++row) {
                for (int64_t head = 0; head < 3; ++head) {
                    for (int64_t i = 0; i < d; ++i) {
                        const auto at = static_cast<size_t>((row * 3 + head) * d + i);
                        const auto stored = [&](const std::vector<float>& x) -> double {
                            if (type == KVP_TYPE_F32) return x[at];
                            if (type == KVP_TYPE_F16) return half_value(nearest_half(x[at]));
                            if (type == KVP_TYPE_BF16) return nearest_bfloat(x[at]);
                            if (type != KVP_TYPE_I8) {
                                const float* row = x.data() + at - static_cast<size_t>(i);
                                return stored_in_groups(row, d, i, type == KVP_TYPE_I4_GROUPS ? 15 : 255);
                            }
                            float most = 0;
                            for (size_t j = at - static_cast<size_t>(i); j < at + static_cast<size_t>(d - i); ++j)
                                most = std::max(most, std::abs(x[j]));
                            const double scale = half_value(nearest_half(most / 127));
                            return scale *
                                   std::clamp(std::nearbyint(x[at] / static_cast<float>(scale)), -127.0f, 127.0f);
                        };
                        ASSERT_EQ(cached.get(head, 20 + row, i), stored(k)) << k[at] << " type " << type;
                        ASSERT_EQ(cached.get(head, 20 + row, d + i), stored(v)) << v[at] << " type " << type;
                    }
                }
            }
            item.token_begin = 22;  // one past the table
            EXPECT_EQ(device().try_run(device().prepare("kvp.kv_write/1"),
                                       {Tensor::f32(k, {20, 3 * d}), Tensor::f32(v, {20, 3 * d})}, &arguments),
                      KVP_ERROR_INVALID);
            EXPECT_NE(device().error().find("40"), std::string::npos) << device().error();
        }
    }
}

KVPLANE_ALL_LEVELS(CpuSmallOps);

}  // namespace
}  // namespace kvplane::test
