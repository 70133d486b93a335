#include "memory/tier.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvplane {
namespace {

TEST(Tier, gives_each_slot_once_and_then_says_no) {
    Tier tier("device", KVP_TIER_DEVICE, 1000, 64, 3);
    std::vector<int32_t> slots;
    while (const auto slot = tier.acquire(SlotUse::page)) slots.push_back(*slot);
    std::sort(slots.begin(), slots.end());
    EXPECT_EQ(slots, (std::vector<int32_t>{0, 1, 2}));
    EXPECT_EQ(tier.used_bytes(), 192u);
    tier.release(1);
    EXPECT_EQ(tier.acquire(SlotUse::staging), 1);
    EXPECT_EQ(tier.count(SlotUse::page), 2u);
    EXPECT_EQ(tier.count(SlotUse::staging), 1u);
    EXPECT_EQ(tier.address(1), 1064u);
    tier.verify();
}

TEST(Tier, remembers_the_most_that_was_in_use) {
    Tier tier("host", KVP_TIER_HOST, 0, 10, 4);
    const int32_t a = tier.acquire(SlotUse::page).value();
    const int32_t b = tier.acquire(SlotUse::page).value();
    tier.release(a);
    tier.release(b);
    EXPECT_EQ(tier.used_bytes(), 0u);
    EXPECT_EQ(tier.peak_bytes(), 20u);
    EXPECT_EQ(tier.budget_bytes(), 40u);
}

TEST(Tier, refuses_to_free_a_slot_twice) {
    Tier tier("host", KVP_TIER_HOST, 0, 10, 1);
    const int32_t slot = tier.acquire(SlotUse::page).value();
    tier.release(slot);
    EXPECT_THROW(tier.release(slot), Error);
}

}  // namespace
}  // namespace kvplane
