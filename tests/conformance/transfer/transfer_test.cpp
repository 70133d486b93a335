// What every transfer plugin must do, through its table alone. Tiers whose memory is not ordinary host memory need a
// device or a file, and are left out here.
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "conformance/transfer/engine.h"
#include "plugin/status.h"

namespace kvplane::test {

namespace {

// "ID KEY=INTEGER ..." as CMakeLists.txt lists them.
std::vector<std::string> settings() {
    std::istringstream text(KVPLANE_TRANSFER_PLUGINS);
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line, ',');) lines.push_back(line);
    return lines;
}

std::shared_ptr<Plugin> open_setting(const std::string& setting) {
    std::istringstream words(setting);
    std::string id, word;
    words >> id;
    OptionValues options;
    while (words >> word) {
        const size_t equals = word.find('=');
        options.emplace(word.substr(0, equals), int64_t(std::stoll(word.substr(equals + 1))));
    }
    return open_transfer(id, options);
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
    std::string name = info.param;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == ' ' || c == '='; }, '_');
    return name;
}

void fill_random(std::vector<uint8_t>& bytes, uint32_t seed) {
    std::mt19937 random(seed);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
}

std::vector<kvp_transfer_pair> pairs_of(const kvp_transfer& table) {
    std::vector<kvp_transfer_pair> pairs;
    for (uint32_t index = 0; index < 64; ++index) {
        kvp_transfer_pair pair = {};
        pair.head = KVP_HEAD(kvp_transfer_pair);
        const kvp_status status = table.pair(index, &pair);
        if (status == KVP_NOT_FOUND) break;
        EXPECT_EQ(status, KVP_OK);
        pairs.push_back(pair);
    }
    return pairs;
}

bool in_host_memory(const kvp_transfer_pair& pair) {
    return pair.from_tier != KVP_TIER_DISK && pair.to_tier != KVP_TIER_DISK;
}

}  // namespace

class Transfer : public testing::TestWithParam<std::string> {
protected:
    std::shared_ptr<Plugin> plugin = open_setting(GetParam());
    const kvp_transfer& table = plugin->kind<kvp_transfer>();
};

INSTANTIATE_TEST_SUITE_P(Plugins, Transfer, testing::ValuesIn(settings()), test_name);

TEST_P(Transfer, says_which_pairs_of_tiers_it_serves) {
    const auto pairs = pairs_of(table);
    ASSERT_FALSE(pairs.empty());
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (const kvp_transfer_pair& pair : pairs) {
        EXPECT_TRUE(pair.from_tier >= KVP_TIER_DEVICE && pair.from_tier <= KVP_TIER_DISK);
        EXPECT_TRUE(pair.to_tier >= KVP_TIER_DEVICE && pair.to_tier <= KVP_TIER_DISK);
        EXPECT_TRUE(pair.path >= KVP_PATH_DIRECT && pair.path <= KVP_PATH_SIMULATED);
        EXPECT_GE(pair.alignment_bytes, 1u);
        EXPECT_TRUE(seen.insert({pair.from_tier, pair.to_tier}).second) << "the same pair twice";
    }
}

TEST_P(Transfer, moves_the_exact_bytes_between_every_pair_and_touches_no_other) {
    Engine engine(plugin);
    for (const kvp_transfer_pair& pair : pairs_of(table)) {
        if (!in_host_memory(pair)) continue;
        Memory from(table, engine.get(), pair.from_tier, 1 << 16);
        Memory to(table, engine.get(), pair.to_tier, 1 << 16);
        fill_random(from.bytes(), 1);
        fill_random(to.bytes(), 2);
        auto expected = to.bytes();
        std::copy_n(from.bytes().begin() + 4096, 8192, expected.begin() + 16384);

        const Batch batch(from, to, 8192, {4096}, {16384}, 7);
        ASSERT_EQ(engine.submit(batch), KVP_OK);
        const auto records = engine.wait(1);
        ASSERT_EQ(records.size(), 1u);
        EXPECT_EQ(records[0].tag, 7u);
        EXPECT_EQ(records[0].state, uint32_t(KVP_TRANSFER_DONE));
        EXPECT_EQ(records[0].error, 0);
        EXPECT_EQ(records[0].n_bytes, 8192u);
        EXPECT_EQ(records[0].path, pair.path);
        EXPECT_LE(records[0].start_ns, records[0].end_ns);
        EXPECT_EQ(to.bytes(), expected);
    }
}

TEST_P(Transfer, gathers_scattered_pieces_and_scatters_them_again) {
    Engine engine(plugin);
    constexpr uint64_t piece = 4096, n_pieces = 200;
    Memory from(table, engine.get(), KVP_TIER_HOST, piece * 1000);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, piece * n_pieces);
    Memory back(table, engine.get(), KVP_TIER_HOST, piece * 1000);
    fill_random(from.bytes(), 3);
    std::vector<uint64_t> scattered(1000), dense(n_pieces);
    for (size_t i = 0; i < scattered.size(); ++i) scattered[i] = i * piece;
    std::shuffle(scattered.begin(), scattered.end(), std::mt19937(4));
    scattered.resize(n_pieces);
    for (size_t i = 0; i < n_pieces; ++i) dense[i] = i * piece;

    ASSERT_EQ(engine.submit(Batch(from, to, piece, scattered, dense, 1)), KVP_OK);
    engine.wait(1);
    for (size_t i = 0; i < n_pieces; ++i) {
        ASSERT_TRUE(std::equal(to.bytes().begin() + static_cast<ptrdiff_t>(dense[i]),
                               to.bytes().begin() + static_cast<ptrdiff_t>(dense[i] + piece),
                               from.bytes().begin() + static_cast<ptrdiff_t>(scattered[i])))
            << "piece " << i;
    }
    ASSERT_EQ(engine.submit(Batch(to, back, piece, dense, scattered, 2)), KVP_OK);
    engine.wait(1);
    std::vector<uint8_t> expected(back.bytes().size());
    for (const uint64_t offset : scattered) {
        std::copy_n(from.bytes().begin() + static_cast<ptrdiff_t>(offset), piece,
                    expected.begin() + static_cast<ptrdiff_t>(offset));
    }
    EXPECT_EQ(back.bytes(), expected);
}

TEST_P(Transfer, keeps_its_own_copy_of_the_lists) {
    Engine engine(plugin);
    Memory from(table, engine.get(), KVP_TIER_HOST, 1 << 20);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, 1 << 20);
    fill_random(from.bytes(), 5);
    std::vector<uint64_t> offsets;
    for (uint64_t at = 0; at < (1 << 20); at += 4096) offsets.push_back(at);
    Batch batch(from, to, 4096, offsets, offsets, 1);
    ASSERT_EQ(engine.submit(batch), KVP_OK);
    std::fill(batch.from_offsets.begin(), batch.from_offsets.end(), 0);
    std::fill(batch.to_offsets.begin(), batch.to_offsets.end(), 0);
    engine.wait(1);
    EXPECT_EQ(to.bytes(), from.bytes());
}

TEST_P(Transfer, refuses_pieces_that_leave_their_region_and_then_moves_nothing) {
    Engine engine(plugin);
    Memory from(table, engine.get(), KVP_TIER_HOST, 8192);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, 4096);
    fill_random(from.bytes(), 6);
    const auto before = to.bytes();
    const auto refused = [&](uint64_t piece, std::vector<uint64_t> from_list, std::vector<uint64_t> to_list) {
        EXPECT_EQ(engine.submit(Batch(from, to, piece, from_list, to_list, 1)), KVP_ERROR_INVALID);
        EXPECT_TRUE(engine.poll(1).empty()) << "a refused batch left a record";
    };
    refused(4096, {4097}, {0});
    refused(4096, {0}, {1});
    refused(1, {8192}, {0});
    refused(1, {0}, {4096});
    refused(4096, {UINT64_MAX - 4095}, {0});
    refused(4096, {0}, {UINT64_MAX});
    refused(8193, {0}, {0});
    refused(UINT64_MAX, {1}, {1});
    refused(16, {0, 16, 8180}, {0, 16, 32});
    EXPECT_NE(engine.explain(engine.submit(Batch(from, to, 4096, {4097}, {0}, 1))).find("4097"), std::string::npos)
        << "the text should name the offset";
    EXPECT_EQ(to.bytes(), before);
}

TEST_P(Transfer, refuses_batches_and_regions_that_make_no_sense) {
    Engine engine(plugin);
    Memory from(table, engine.get(), KVP_TIER_HOST, 4096);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, 4096);
    const auto with = [&](auto change) {
        Batch batch(from, to, 64, {0}, {0}, 1);
        change(batch.batch);
        return engine.submit(batch);
    };
    EXPECT_EQ(with([](kvp_transfer_batch& batch) { batch.from = nullptr; }), KVP_ERROR_INVALID);
    EXPECT_EQ(with([](kvp_transfer_batch& batch) { batch.to = nullptr; }), KVP_ERROR_INVALID);
    EXPECT_EQ(with([](kvp_transfer_batch& batch) { batch.from_offsets = nullptr; }), KVP_ERROR_INVALID);
    EXPECT_EQ(with([](kvp_transfer_batch& batch) { batch.n_pieces = 0; }), KVP_ERROR_INVALID);
    EXPECT_EQ(with([](kvp_transfer_batch& batch) { batch.piece_bytes = 0; }), KVP_ERROR_INVALID);
    EXPECT_EQ(with([](kvp_transfer_batch& batch) { batch.priority = 0; }), KVP_ERROR_INVALID);
    EXPECT_EQ(with([](kvp_transfer_batch& batch) { batch.priority = 9; }), KVP_ERROR_INVALID);
    EXPECT_EQ(with([](kvp_transfer_batch& batch) { batch.head.struct_size = 16; }), KVP_ERROR_INVALID);
    EXPECT_TRUE(engine.poll(1).empty());

    kvp_transfer_memory* memory = nullptr;
    kvp_transfer_region region = {};
    region.head = KVP_HEAD(kvp_transfer_region);
    region.tier = KVP_TIER_HOST;
    region.base = reinterpret_cast<kvp_address>(from.bytes().data());
    EXPECT_EQ(table.add_memory(engine.get(), &region, &memory), KVP_ERROR_INVALID);  // no bytes
    region.n_bytes = UINT64_MAX;
    EXPECT_EQ(table.add_memory(engine.get(), &region, &memory), KVP_ERROR_INVALID);
    region.n_bytes = 64;
    region.base = 0;
    EXPECT_EQ(table.add_memory(engine.get(), &region, &memory), KVP_ERROR_INVALID);
    region.base = 4096;
    region.tier = 0x0fffffff;
    EXPECT_EQ(table.add_memory(engine.get(), &region, &memory), KVP_UNSUPPORTED);
    EXPECT_EQ(memory, nullptr);
}

TEST_P(Transfer, ends_every_accepted_batch_in_one_record) {
    Engine engine(plugin);
    Memory from(table, engine.get(), KVP_TIER_HOST, 1 << 16);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, 1 << 16);
    constexpr uint64_t n_batches = 1000;
    std::map<uint64_t, int> seen;
    uint64_t accepted = 0;
    while (accepted < n_batches) {
        const kvp_status status =
            engine.submit(Batch(from, to, 64, {64 * (accepted % 1000)}, {64 * (accepted % 1000)}, accepted));
        if (status == KVP_OK) {
            ++accepted;
        } else {
            ASSERT_EQ(status, KVP_AGAIN);
            for (const auto& record : engine.wait(1)) ++seen[record.tag];
        }
    }
    uint64_t n_seen = 0;
    for (const auto& [tag, times] : seen) n_seen += static_cast<uint64_t>(times);
    for (const auto& record : engine.wait(n_batches - n_seen)) ++seen[record.tag];
    EXPECT_EQ(seen.size(), n_batches);
    for (const auto& [tag, times] : seen) EXPECT_EQ(times, 1) << tag;
    EXPECT_TRUE(engine.poll(1, second_ns / 100).empty());
}

TEST_P(Transfer, takes_no_more_batches_than_it_says_and_takes_more_when_records_were_polled) {
    Engine engine(plugin);
    Memory from(table, engine.get(), KVP_TIER_HOST, 4096);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, 4096);
    uint32_t most = 0;
    for (const auto& pair : pairs_of(table)) {
        if (pair.from_tier == KVP_TIER_HOST && pair.to_tier == KVP_TIER_DEVICE) most = pair.max_batches;
    }
    if (most == 0) GTEST_SKIP() << "it says no limit";
    for (uint32_t i = 0; i < most; ++i) ASSERT_EQ(engine.submit(Batch(from, to, 64, {0}, {0}, i)), KVP_OK);
    EXPECT_EQ(engine.submit(Batch(from, to, 64, {0}, {0}, most)), KVP_AGAIN);
    ASSERT_EQ(engine.wait(1).size(), 1u);
    EXPECT_EQ(engine.submit(Batch(from, to, 64, {0}, {0}, most)), KVP_OK);
    EXPECT_EQ(engine.wait(most).size(), most);
}

TEST_P(Transfer, keeps_a_memory_that_is_in_use) {
    Engine engine(plugin);
    Memory from(table, engine.get(), KVP_TIER_HOST, 4 << 20);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, 4 << 20);
    fill_random(from.bytes(), 8);
    ASSERT_EQ(engine.submit(Batch(from, to, 4 << 20, {0}, {0}, 1)), KVP_OK);
    const kvp_status status = from.remove();
    // Either it is still copying, or its record is there: it must not let the memory go and copy on.
    if (status == KVP_OK) {
        EXPECT_EQ(engine.poll(1).size(), 1u);
    } else {
        EXPECT_EQ(status, KVP_AGAIN);
        EXPECT_EQ(engine.wait(1).size(), 1u);
        EXPECT_EQ(from.remove(), KVP_OK);
    }
    EXPECT_EQ(to.bytes(), from.bytes());
    EXPECT_EQ(table.remove_memory(engine.get(), nullptr), KVP_ERROR_INVALID);
}

TEST_P(Transfer, polls_without_waiting_when_told_so_and_no_longer_than_told) {
    Engine engine(plugin);
    EXPECT_TRUE(engine.poll(4, 0).empty());
    EXPECT_TRUE(engine.poll(4, second_ns / 50).empty());
    uint32_t n_filled = 7;
    EXPECT_EQ(table.poll(engine.get(), nullptr, 0, 0, &n_filled), KVP_OK);
    EXPECT_EQ(n_filled, 0u);
}

TEST_P(Transfer, gives_up_a_wait_when_the_process_ends) {
    Engine engine(plugin);
    set_stopping(true);
    kvp_transfer_record record = {};
    record.head = KVP_HEAD(kvp_transfer_record);
    kvp_transfer_record* pointer = &record;
    uint32_t n_filled = 7;
    EXPECT_EQ(table.poll(engine.get(), &pointer, 1, UINT64_MAX, &n_filled), KVP_STOPPED);
    EXPECT_EQ(n_filled, 0u);
    set_stopping(false);
}

TEST_P(Transfer, fills_no_more_of_a_record_than_the_caller_has) {
    Engine engine(plugin);
    Memory from(table, engine.get(), KVP_TIER_HOST, 4096);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, 4096);
    ASSERT_EQ(engine.submit(Batch(from, to, 64, {0}, {0}, 5)), KVP_OK);
    kvp_transfer_record record;
    std::fill_n(reinterpret_cast<uint8_t*>(&record), sizeof record, uint8_t(0xaa));
    record.head = {offsetof(kvp_transfer_record, path), 0, nullptr};
    kvp_transfer_record* pointer = &record;
    uint32_t n_filled = 0;
    ASSERT_EQ(table.poll(engine.get(), &pointer, 1, 10 * second_ns, &n_filled), KVP_OK);
    ASSERT_EQ(n_filled, 1u);
    EXPECT_EQ(record.head.struct_size, offsetof(kvp_transfer_record, path));
    EXPECT_EQ(record.tag, 5u);
    EXPECT_EQ(record.path, 0xaaaaaaaau);
    EXPECT_EQ(record.end_ns, 0xaaaaaaaaaaaaaaaau);
}

TEST_P(Transfer, cancels_what_has_not_started_and_still_gives_a_record) {
    Engine engine(plugin);
    if (!KVP_HAS(kvp_transfer, &table, cancel)) GTEST_SKIP() << "it cannot cancel";
    Memory from(table, engine.get(), KVP_TIER_HOST, 16 << 20);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, 16 << 20);
    fill_random(from.bytes(), 9);
    const auto untouched = to.bytes();
    constexpr uint64_t slice = 1 << 20;
    uint64_t n_batches = 0;
    while (n_batches < 16) {
        const uint64_t offset = n_batches * slice;
        if (engine.submit(Batch(from, to, slice, {offset}, {offset}, n_batches)) != KVP_OK) break;
        ++n_batches;
    }
    ASSERT_GT(n_batches, 0u);
    std::set<uint64_t> cancelled;
    for (uint64_t i = n_batches; i-- > 0;) {
        const kvp_status status = table.cancel(engine.get(), i);
        if (status == KVP_OK)
            cancelled.insert(i);
        else
            EXPECT_EQ(status, KVP_NOT_FOUND);
    }
    EXPECT_EQ(table.cancel(engine.get(), 999), KVP_NOT_FOUND);
    const auto records = engine.wait(n_batches);
    ASSERT_EQ(records.size(), n_batches);
    for (const auto& record : records) {
        const bool gone = cancelled.contains(record.tag);
        EXPECT_EQ(record.state, uint32_t(gone ? KVP_TRANSFER_CANCELLED : KVP_TRANSFER_DONE)) << record.tag;
        EXPECT_EQ(record.n_bytes, gone ? 0 : slice);
        const auto& expected = gone ? untouched : from.bytes();
        const auto begin = static_cast<ptrdiff_t>(record.tag * slice), end = begin + ptrdiff_t(slice);
        EXPECT_TRUE(std::equal(to.bytes().begin() + begin, to.bytes().begin() + end, expected.begin() + begin));
    }
}

TEST_P(Transfer, fails_a_batch_whose_deadline_passed_before_it_started) {
    Engine engine(plugin);
    Memory from(table, engine.get(), KVP_TIER_HOST, 4096);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, 4096);
    Batch batch(from, to, 4096, {0}, {0}, 1);
    batch.batch.deadline_ns = 1;
    ASSERT_EQ(engine.submit(batch), KVP_OK);
    const auto records = engine.wait(1);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].state, uint32_t(KVP_TRANSFER_FAILED));
    EXPECT_EQ(records[0].error, ETIMEDOUT);
    EXPECT_EQ(records[0].first_bad, 0u);
}

TEST_P(Transfer, close_finishes_what_was_accepted) {
    std::vector<uint8_t> from(8 << 20), to(8 << 20);
    fill_random(from, 10);
    kvp_transfer_engine* engine = nullptr;
    ASSERT_EQ(table.open(&engine), KVP_OK);
    kvp_transfer_memory *from_memory = nullptr, *to_memory = nullptr;
    kvp_transfer_region region = {};
    region.head = KVP_HEAD(kvp_transfer_region);
    region.tier = KVP_TIER_HOST;
    region.n_bytes = from.size();
    region.base = reinterpret_cast<kvp_address>(from.data());
    ASSERT_EQ(table.add_memory(engine, &region, &from_memory), KVP_OK);
    region.base = reinterpret_cast<kvp_address>(to.data());
    ASSERT_EQ(table.add_memory(engine, &region, &to_memory), KVP_OK);
    uint64_t n_accepted = 0;
    for (uint64_t i = 0; i < 8; ++i) {
        const uint64_t offset = i << 20;
        kvp_transfer_batch batch = {};
        batch.head = KVP_HEAD(kvp_transfer_batch);
        batch.from = from_memory;
        batch.to = to_memory;
        batch.from_offsets = batch.to_offsets = &offset;
        batch.piece_bytes = 1 << 20;
        batch.n_pieces = 1;
        batch.priority = KVP_PRIORITY_STORE;
        if (table.submit(engine, &batch) != KVP_OK) break;
        n_accepted = i + 1;
    }
    table.close(engine);
    ASSERT_GT(n_accepted, 0u);
    EXPECT_TRUE(std::equal(to.begin(), to.begin() + static_cast<ptrdiff_t>(n_accepted << 20), from.begin()));
}

TEST_P(Transfer, serves_many_threads_at_once) {
    Engine engine(plugin);
    constexpr uint64_t n_threads = 4, n_batches = 250, piece = 256;
    Memory from(table, engine.get(), KVP_TIER_HOST, n_threads * n_batches * piece);
    Memory to(table, engine.get(), KVP_TIER_DEVICE, n_threads * n_batches * piece);
    fill_random(from.bytes(), 11);
    std::atomic<uint64_t> n_records = 0;
    std::vector<std::atomic<int>> seen(n_threads * n_batches);
    std::atomic<int> n_bad = 0;
    const auto collect = [&](uint64_t timeout_ns) {
        for (const auto& record : engine.poll(8, timeout_ns)) {
            if (record.state != KVP_TRANSFER_DONE || record.tag >= seen.size())
                ++n_bad;
            else
                ++seen[record.tag];
            ++n_records;
        }
    };
    std::vector<std::thread> threads;
    for (uint64_t thread = 0; thread < n_threads; ++thread) {
        threads.emplace_back([&, thread] {
            for (uint64_t i = 0; i < n_batches;) {
                const uint64_t tag = thread * n_batches + i;
                const kvp_status status = engine.submit(Batch(from, to, piece, {tag * piece}, {tag * piece}, tag));
                if (status == KVP_OK)
                    ++i;
                else if (status != KVP_AGAIN)
                    ++n_bad, ++i;
                collect(status == KVP_AGAIN ? second_ns / 1000 : 0);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (int idle = 0; n_records < n_threads * n_batches && idle < 1000; ++idle) collect(second_ns / 100);
    EXPECT_EQ(n_bad, 0);
    EXPECT_EQ(n_records, n_threads * n_batches);
    for (const auto& times : seen) ASSERT_EQ(times, 1);
    EXPECT_EQ(to.bytes(), from.bytes());
}

}  // namespace kvplane::test
