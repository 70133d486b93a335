#include "memory/resident_set.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace kvplane {
namespace {

// A device that has memory and nothing else: the group table needs no more.
struct BareDevice {
    static kvp_status info(uint32_t, kvp_device_info* info) {
        info->id = info->name = info->arch = {"bare", 4};
        info->flags = KVP_DEVICE_HOST_MEMORY;
        return KVP_OK;
    }
    BareDevice() {
        table.count = [] { return 1u; };
        table.info = info;
        table.open = [](uint32_t, kvp_device_object**) { return kvp_status{KVP_OK}; };
        table.queue_create = [](kvp_device_object*, int32_t, kvp_queue**) { return kvp_status{KVP_OK}; };
        table.event_create = [](kvp_device_object*, kvp_event**) { return kvp_status{KVP_OK}; };
    }
    kvp_device table{};
};

// One KV head, pages of 8 tokens in groups of 4, so two groups a page slot.
class ResidentSetTest : public testing::Test {
protected:
    static PageLayout layout() {
        PageLayout made;
        made.layers = 1;
        made.kv_heads = 1;
        made.head_size = 16;
        made.page_tokens = 8;
        made.group_tokens = 4;
        return made;
    }

    BareDevice bare;
    Device device{&bare.table, 0, [](kvp_status) { return std::string(); }};
    PageLayout layout_ = layout();
    Tier tier{"device", KVP_TIER_DEVICE, 1 << 20, layout_.page_bytes(), 4};
    LayerCache layer{device, layout_, 8, 16};
    ResidentSet set{layout_, tier};

    int32_t take(uint64_t group) {
        const int32_t entry = set.acquire(layer, 0, group);
        if (entry >= 0) set.publish(entry);
        if (entry >= 0) set.unpin(entry);
        return entry;
    }
};

TEST_F(ResidentSetTest, is_empty_until_it_is_given_a_slot) {
    EXPECT_EQ(set.acquire(layer, 0, 3), -1);
    set.grow(tier.acquire(SlotUse::resident).value());
    const int32_t entry = take(3);
    ASSERT_GE(entry, 0);
    EXPECT_EQ(ResidentSet::find(layer, 0, 3), entry);
    EXPECT_EQ(layer.groups.get(0, 3), tier.base() + set.offset(entry));
}

TEST_F(ResidentSetTest, lets_the_least_recently_used_group_go) {
    set.grow(tier.acquire(SlotUse::resident).value());
    take(1);
    take(2);
    set.pin(ResidentSet::find(layer, 0, 1));  // used again
    set.unpin(ResidentSet::find(layer, 0, 1));
    take(3);
    EXPECT_GE(ResidentSet::find(layer, 0, 1), 0);
    EXPECT_EQ(ResidentSet::find(layer, 0, 2), -1);
    EXPECT_EQ(layer.groups.get(0, 2), 0u);
    EXPECT_GE(ResidentSet::find(layer, 0, 3), 0);
}

TEST_F(ResidentSetTest, never_lets_a_pinned_group_go) {
    set.grow(tier.acquire(SlotUse::resident).value());
    set.acquire(layer, 0, 1);
    set.acquire(layer, 0, 2);
    EXPECT_EQ(set.acquire(layer, 0, 3), -1);
    EXPECT_EQ(set.shrink(), std::nullopt);
    set.unpin(ResidentSet::find(layer, 0, 2));
    EXPECT_GE(set.acquire(layer, 0, 3), 0);
    EXPECT_GE(ResidentSet::find(layer, 0, 1), 0);
}

TEST_F(ResidentSetTest, is_not_readable_before_its_bytes_have_come) {
    set.grow(tier.acquire(SlotUse::resident).value());
    const int32_t entry = set.acquire(layer, 0, 5);
    EXPECT_EQ(layer.groups.get(0, 5), 0u);
    set.publish(entry);
    EXPECT_NE(layer.groups.get(0, 5), 0u);
}

TEST_F(ResidentSetTest, forgets_what_lay_in_a_slot_that_it_gives_back) {
    set.grow(tier.acquire(SlotUse::resident).value());
    take(1);
    take(2);
    EXPECT_EQ(set.shrink(), 0);
    EXPECT_EQ(set.slots(), 0u);
    EXPECT_EQ(ResidentSet::find(layer, 0, 1), -1);
    EXPECT_EQ(take(1), -1);
    set.grow(2);
    EXPECT_GE(take(1), 0);
}

TEST_F(ResidentSetTest, drops_the_groups_of_one_page_alone) {
    set.grow(tier.acquire(SlotUse::resident).value());
    set.grow(tier.acquire(SlotUse::resident).value());
    for (uint64_t group : {0, 1, 2, 3}) take(group);
    set.drop_page(layer, 1);  // groups 2 and 3
    EXPECT_GE(ResidentSet::find(layer, 0, 0), 0);
    EXPECT_GE(ResidentSet::find(layer, 0, 1), 0);
    EXPECT_EQ(ResidentSet::find(layer, 0, 2), -1);
    EXPECT_EQ(ResidentSet::find(layer, 0, 3), -1);
}

}  // namespace
}  // namespace kvplane
