// Every codec makes the bytes that an independent program makes of the same rows, and back.
#include <gtest/gtest.h>

#include <cmath>

#include "kvplane/codec.h"
#include "kvplane/sdk/half.hpp"
#include "support/codec_golden.h"
#include "support/fake_host.h"

namespace kvplane::test {
namespace {

const std::string folder = KVPLANE_GOLDEN_DIR;

struct Case {
    const char* name;  // of the golden files
    const char* plugin;
    FakeHost::Options options;
    double step;  // most that a value may be off, as a share of the range of the values that share its scale
};

class CodecGolden : public testing::TestWithParam<Case> {
protected:
    LoadedPlugin plugin{std::string(KVPLANE_PLUGIN_DIR) + "/" + GetParam().plugin + ".so", GetParam().options};
    const kvp_codec& codec = *plugin.kind<kvp_codec>(KVP_KIND_CODEC);

    kvp_codec_info info(uint32_t head_size) {
        auto made = kvp::make<kvp_codec_info>();
        EXPECT_EQ(codec.info(head_size, &made), KVP_OK);
        return made;
    }
};

TEST_P(CodecGolden, makes_the_bytes_of_the_reference_for_every_length) {
    for (const uint32_t d : kCodecHeadSizes) {
        const auto rows = codec_rows(folder, d);
        const auto expected = codec_bytes(folder, GetParam().name, d);
        const uint64_t block = info(d).block_tokens;
        for (const uint64_t n : {uint64_t{1}, uint64_t{32}, uint64_t{63}, uint64_t{64}, kCodecTokens}) {
            if (n % block != 0) continue;
            const uint64_t bytes = codec.encoded_bytes(d, n);
            ASSERT_LE(bytes, expected.size());
            std::vector<uint8_t> encoded(bytes + 1, 0xA5);  // one byte more, which must stay
            ASSERT_EQ(codec.encode(d, n, rows.data(), encoded.data()), KVP_OK);
            EXPECT_EQ(encoded.back(), 0xA5);
            encoded.pop_back();
            EXPECT_TRUE(std::equal(encoded.begin(), encoded.end(), expected.begin())) << "head size " << d << ", " << n;
        }
        EXPECT_EQ(codec.encoded_bytes(d, kCodecTokens / block * block), expected.size());
    }
}

TEST_P(CodecGolden, gives_rows_back_as_near_as_its_steps_are) {
    for (const uint32_t d : kCodecHeadSizes) {
        const auto rows = codec_rows(folder, d);
        const auto encoded = codec_bytes(folder, GetParam().name, d);
        const uint64_t n = kCodecTokens / info(d).block_tokens * info(d).block_tokens;
        std::vector<uint16_t> decoded(n * 2 * d);
        ASSERT_EQ(codec.decode(d, n, encoded.data(), decoded.data()), KVP_OK);
        // Steps are no finer than f16 scales can say.
        const double tiny = GetParam().step == 0 ? 1e-7 : 1.0 / 65504;
        const bool by_channel = info(d).block_tokens > 1;
        for (uint64_t at = 0; at < decoded.size(); ++at) {
            const double x = kvp::half_to_float(rows[at]);
            if (std::abs(x) > 65000) continue;  // may become infinite in f16
            double low = 0, high = 0;
            const uint64_t row = at / (2 * d), column = at % (2 * d);
            const auto see = [&](uint64_t i) {
                low = std::min<double>(low, kvp::half_to_float(rows[i]));
                high = std::max<double>(high, kvp::half_to_float(rows[i]));
            };
            if (by_channel && column < d) {
                for (uint64_t token = row / 32 * 32; token < row / 32 * 32 + 32; ++token) see(token * 2 * d + column);
            } else {
                for (uint64_t i = column / d * d; i < (column / d + 1) * d; ++i) see(row * 2 * d + i);
            }
            // And what f16 scales and minima are off by, of what they are multiplied with.
            const double bound = (high - low) * (GetParam().step + 2e-3) + tiny;
            ASSERT_NEAR(kvp::half_to_float(decoded[at]), x, bound)
                << "head size " << d << " row " << row << " of " << n;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecGolden,
                         testing::Values(Case{"f16", "f16", {}, 0}, Case{"f32", "f32", {}, 0},
                                         Case{"bf16", "bf16", {}, 0.004}, Case{"i8", "i8", {}, 1.0 / 127},
                                         Case{"int8", "int8", {}, 0.5 / 255}, Case{"int4", "int4", {}, 0.5 / 15},
                                         Case{"kivi4", "kivi", {{"bits", "4"}}, 0.5 / 15},
                                         Case{"kivi2", "kivi", {{"bits", "2"}}, 0.5 / 3}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Kivi, refuses_what_it_cannot_encode) {
    const std::string path = std::string(KVPLANE_PLUGIN_DIR) + "/kivi.so";
    EXPECT_THROW(LoadedPlugin(path, {{"bits", "3"}}), std::runtime_error);
    LoadedPlugin plugin(path, {});
    const auto& codec = *plugin.kind<kvp_codec>(KVP_KIND_CODEC);
    auto info = kvp::make<kvp_codec_info>();
    EXPECT_EQ(codec.info(24, &info), KVP_UNSUPPORTED);
    EXPECT_NE(plugin.host.error.find("multiple of 16"), std::string::npos);
    EXPECT_EQ(codec.encode(16, 33, std::vector<uint16_t>(33 * 32).data(), std::vector<uint8_t>(4096).data()),
              KVP_ERROR_INVALID);
}

}  // namespace
}  // namespace kvplane::test
