// f16, f32, bf16: values as they are. One source, a library for each (CMakeLists.txt).
#include "kvplane/sdk/plugin.hpp"
#include "kvplane/sdk/codec.hpp"

KVP_MANIFEST(KVP_MANIFEST_JSON("codec", KVPLANE_CODEC_ID, "1.0.0"));

namespace {

constexpr std::string_view id = KVPLANE_CODEC_ID;

struct Row {
    static constexpr uint32_t row_type = id == "f16"   ? uint32_t{KVP_TYPE_F16}
                                         : id == "f32" ? uint32_t{KVP_TYPE_F32}
                                                       : uint32_t{KVP_TYPE_BF16};
    static constexpr std::string_view summary = KVPLANE_CODEC_ID ": values as they are";

    static void encode(uint32_t head_size, const uint16_t* row, uint8_t* encoded) {
        for (uint32_t i = 0; i < 2 * head_size; i++) {
            const float x = kvp::half_to_float(row[i]);
            const uint16_t narrow = row_type == KVP_TYPE_F16 ? row[i] : kvp::float_to_bfloat(x);
            if (row_type == KVP_TYPE_F32) {
                std::memcpy(encoded + 4 * i, &x, sizeof x);
            } else {
                std::memcpy(encoded + 2 * i, &narrow, sizeof narrow);
            }
        }
    }
    static void decode(uint32_t head_size, const uint8_t* encoded, uint16_t* row) {
        for (uint32_t i = 0; i < 2 * head_size; i++) {
            if (row_type == KVP_TYPE_F32) {
                float x;
                std::memcpy(&x, encoded + 4 * i, sizeof x);
                row[i] = kvp::float_to_half(x);
                continue;
            }
            uint16_t narrow;
            std::memcpy(&narrow, encoded + 2 * i, sizeof narrow);
            row[i] = row_type == KVP_TYPE_F16 ? narrow : kvp::float_to_half(kvp::bfloat_to_float(narrow));
        }
    }
};

constexpr kvp_codec codec = kvp::row_codec<Row>();

kvp_status init(const kvp_host*) {
    return KVP_OK;
}

void fini() {}

const void* get_kind(kvp_str kind) {
    return kvp::view(kind) == KVP_KIND_CODEC ? &codec : nullptr;
}

constexpr std::array<const kvp_option*, 0> options{};
constexpr auto descriptor = kvp::describe(id, "1.0.0", "kvplane", options, init, fini, get_kind);

}  // namespace

KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host*) {
    return &descriptor;
}
