// What transfer/memcpy promises beyond the suite of all.
#include <chrono>

#include "conformance/transfer/engine.h"

namespace kvplane::test {

TEST(Memcpy, serves_every_pair_of_memory_tiers_and_no_disk) {
    const auto plugin = open_transfer("memcpy");
    Engine engine(plugin);
    kvp_transfer_pair pair = {};
    pair.head = KVP_HEAD(kvp_transfer_pair);
    uint32_t n_pairs = 0;
    while (engine.table().pair(n_pairs, &pair) == KVP_OK) ++n_pairs;
    EXPECT_EQ(n_pairs, 9u);

    kvp_transfer_region region = {};
    region.head = KVP_HEAD(kvp_transfer_region);
    region.tier = KVP_TIER_DISK;
    kvp_transfer_memory* memory = nullptr;
    EXPECT_EQ(
        engine.explain(engine.table().add_memory(engine.get(), &region, &memory)),
        "not supported (KVP_UNSUPPORTED), because memcpy moves between device, pinned and host memory, not tier 4");
}

TEST(Memcpy, refuses_a_batch_with_events) {
    Engine engine(open_transfer("memcpy"));
    Memory from(engine.table(), engine.get(), KVP_TIER_HOST, 64);
    Memory to(engine.table(), engine.get(), KVP_TIER_DEVICE, 64);
    int nothing = 0;
    for (const auto point : {&kvp_transfer_batch::after, &kvp_transfer_batch::then}) {
        Batch batch(from, to, 64, {0}, {0}, 1);
        (batch.batch.*point).event = reinterpret_cast<kvp_event*>(&nothing);
        EXPECT_EQ(engine.explain(engine.submit(batch)),
                  "not supported (KVP_UNSUPPORTED), because memcpy knows no device whose events it could wait for or "
                  "raise; submit when the source is ready, and go by the record");
    }
    EXPECT_TRUE(engine.poll(1).empty());
}

TEST(Memcpy, without_threads_has_copied_when_submit_returns) {
    Engine engine(open_transfer("memcpy", {{"threads", int64_t(0)}}));
    Memory from(engine.table(), engine.get(), KVP_TIER_HOST, 64);
    Memory to(engine.table(), engine.get(), KVP_TIER_DEVICE, 64);
    from.bytes().assign(64, 7);
    ASSERT_EQ(engine.submit(Batch(from, to, 64, {0}, {0}, 1)), KVP_OK);
    EXPECT_EQ(to.bytes(), from.bytes());
    EXPECT_EQ(engine.poll(2).size(), 1u);
}

TEST(Memcpy, moves_pieces_that_overlap_as_if_they_did_not) {
    Engine engine(open_transfer("memcpy"));
    Memory memory(engine.table(), engine.get(), KVP_TIER_HOST, 4096);
    for (size_t i = 0; i < 4096; ++i) memory.bytes()[i] = static_cast<uint8_t>(i * 7 + i / 256);
    const auto before = memory.bytes();
    ASSERT_EQ(engine.submit(Batch(memory, memory, 2048, {0}, {1000}, 1)), KVP_OK);
    engine.wait(1);
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + 2048, memory.bytes().begin() + 1000));
}

TEST(Memcpy, copies_what_a_step_waits_for_before_what_it_does_not) {
    Engine engine(open_transfer("memcpy", {{"threads", int64_t(1)}}));
    constexpr size_t n_bytes = 1 << 20;
    Memory from(engine.table(), engine.get(), KVP_TIER_HOST, n_bytes);
    Memory to(engine.table(), engine.get(), KVP_TIER_DEVICE, n_bytes);
    // Ten slow stores, then one urgent batch: it overtakes all stores that had not started when it was submitted.
    for (uint64_t tag = 0; tag < 10; ++tag) {
        Batch store(from, to, n_bytes, {0}, {0}, tag);
        store.batch.priority = KVP_PRIORITY_STORE;
        ASSERT_EQ(engine.submit(store), KVP_OK);
    }
    ASSERT_EQ(engine.submit(Batch(from, to, 64, {0}, {0}, 10)), KVP_OK);
    kvp_transfer_record urgent = {};
    const uint64_t submitted_ns = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
    const auto records = engine.wait(11);
    for (const auto& record : records) {
        if (record.tag == 10) urgent = record;
    }
    for (const auto& record : records) {
        if (record.tag == 10 || record.start_ns <= submitted_ns) continue;
        EXPECT_GE(record.start_ns, urgent.end_ns);
    }
}

}  // namespace kvplane::test
