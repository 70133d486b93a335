// Layout rules that hold for every struct before the freeze pins each offset: 64-bit sizes, and KVP_HAS.
#include <gtest/gtest.h>
#include <kvplane/codec.h>
#include <kvplane/kv.h>
#include <kvplane/kvplane.h>
#include <kvplane/plugin.h>
#include <kvplane/transfer.h>

#include <type_traits>

namespace kvplane::test {

// Opens with the head, is a multiple of 8 long (the loader refuses other sizes), and is plain data.
template <class Struct>
constexpr bool may_cross() {
    return offsetof(Struct, head) == 0 && sizeof(Struct) % 8 == 0 && alignof(Struct) == 8 &&
           std::is_standard_layout_v<Struct> && std::is_trivially_copyable_v<Struct>;
}

static_assert(sizeof(kvp_head) == 16 && sizeof(kvp_str) == 16 && sizeof(kvp_event_point) == 16);
static_assert(may_cross<kvp_host>() && may_cross<kvp_option>() && may_cross<kvp_plugin_descriptor>());
static_assert(may_cross<kvp_tensor>() && may_cross<kvp_device_info>() && may_cross<kvp_op_request>());
static_assert(may_cross<kvp_op_answer>() && may_cross<kvp_device>() && may_cross<kvp_codec_info>());
static_assert(may_cross<kvp_codec>() && may_cross<kvp_kv_model>() && may_cross<kvp_kv_evidence>());
static_assert(may_cross<kvp_sidecar>() && may_cross<kvp_kv_needs>() && may_cross<kvp_kv_sequence>());
static_assert(may_cross<kvp_kv_step>() && may_cross<kvp_kv_weights>() && may_cross<kvp_kv_core>());
static_assert(may_cross<kvp_kv_eviction>() && may_cross<kvp_kv>() && may_cross<kvp_segment>());
static_assert(may_cross<kvp_transfer_region>() && may_cross<kvp_transfer_pair>() && may_cross<kvp_transfer_batch>());
static_assert(may_cross<kvp_transfer_record>() && may_cross<kvp_transfer>() && may_cross<kvp_engine_options>());
static_assert(may_cross<kvp_request>() && may_cross<kvp_result>());

namespace {

uint64_t bytes_of(uint32_t, uint64_t n_tokens) {
    return n_tokens;
}

}  // namespace

TEST(KvpHas, sees_a_member_only_when_it_ends_inside_the_size_given_and_is_not_null) {
    kvp_codec table = {KVP_HEAD(kvp_codec), nullptr, nullptr, nullptr, bytes_of};
    EXPECT_TRUE(KVP_HAS(kvp_codec, &table, encoded_bytes));
    EXPECT_FALSE(KVP_HAS(kvp_codec, &table, info));
    table.head.struct_size = sizeof(kvp_codec) - 1;
    EXPECT_FALSE(KVP_HAS(kvp_codec, &table, encoded_bytes));
    const kvp_codec* const none = nullptr;
    EXPECT_FALSE(KVP_HAS(kvp_codec, none, encoded_bytes));
}

TEST(KvpCovers, sees_a_scalar_that_is_zero) {
    kvp_transfer_pair pair = {};
    pair.head.struct_size = offsetof(kvp_transfer_pair, alignment_bytes) + 4;
    EXPECT_TRUE(KVP_COVERS(kvp_transfer_pair, &pair, alignment_bytes));
    EXPECT_FALSE(KVP_COVERS(kvp_transfer_pair, &pair, max_piece_bytes));
}

}  // namespace kvplane::test
