// The device writes rows of a codec as the codec does: the bytes of tests/reference/make_codec_golden.py.
#include "levels.h"
#include "support/codec_golden.h"

namespace kvplane::test {
namespace {

class CpuCodecRows : public CpuDevice {};

TEST_P(CpuCodecRows, are_the_bytes_of_the_reference) {
    const std::string folder = KVPLANE_CODEC_GOLDEN_DIR;
    const std::pair<const char*, uint32_t> types[] = {{"f16", KVP_TYPE_F16},        {"f32", KVP_TYPE_F32},
                                                      {"bf16", KVP_TYPE_BF16},      {"i8", KVP_TYPE_I8},
                                                      {"int8", KVP_TYPE_I8_GROUPS}, {"int4", KVP_TYPE_I4_GROUPS}};
    for (const uint32_t d : kCodecHeadSizes) {
        const auto rows = codec_rows(folder, d);
        std::vector<float> keys, values;
        for (uint64_t i = 0; i < rows.size(); ++i) {
            (i % (2 * d) < d ? keys : values).push_back(static_cast<float>(half_value(rows[i])));
        }
        for (const auto& [name, type] : types) {
            const auto expected = codec_bytes(folder, name, d);
            constexpr auto n = static_cast<int64_t>(kCodecTokens);
            std::vector<uint8_t> memory(80 * kvp_row_bytes(type, d), 0);
            std::vector<uint64_t> groups;
            for (uint64_t group = 0; group < 5; ++group) {
                groups.push_back(reinterpret_cast<uint64_t>(memory.data()) + group * 16 * kvp_row_bytes(type, d));
            }
            auto cached = structure<kvp_rows>();
            cached.groups = address_of(groups);
            cached.groups_stride = 5;
            cached.n_kv_heads = 1;
            cached.head_size = d;
            cached.group_tokens = 16;
            cached.type = type;
            auto item = structure<kvp_kv_write_item>();
            item.rows = &cached;
            item.n_rows = n;
            const kvp_kv_write_item* items[] = {&item};
            auto arguments = structure<kvp_kv_write_arguments>();
            arguments.items = items;
            arguments.n_items = 1;
            device().run("kvp.kv_write/1", {Tensor::f32(keys, {n, d}), Tensor::f32(values, {n, d})}, &arguments);
            ASSERT_EQ(kvp_row_bytes(type, d) * kCodecTokens, expected.size());
            memory.resize(expected.size());
            EXPECT_EQ(memory, expected) << name << " of head size " << d;
        }
    }
}

KVPLANE_ALL_LEVELS(CpuCodecRows);

}  // namespace
}  // namespace kvplane::test
