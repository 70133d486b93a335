// A transfer plugin, loaded as a pipeline would load it, with an open engine and memories to move between.
#pragma once

#include <gtest/gtest.h>
#include <kvplane/transfer.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugin/loader.h"

namespace kvplane::test {

inline constexpr uint64_t second_ns = 1'000'000'000;

inline std::shared_ptr<Plugin> open_transfer(const std::string& id, const OptionValues& options = {}) {
    auto plugin = PluginLoader(standard_search_path({})).open(id, KVP_KIND_TRANSFER, "/");
    plugin->init(options);
    return plugin;
}

// Bytes at a tier, known to an engine as long as this lives.
class Memory {
public:
    Memory(const kvp_transfer& table, kvp_transfer_engine* engine, uint32_t tier, size_t n_bytes)
        : table_(table), engine_(engine), bytes_(n_bytes) {
        kvp_transfer_region region = {};
        region.head = KVP_HEAD(kvp_transfer_region);
        region.tier = tier;
        region.base = reinterpret_cast<kvp_address>(bytes_.data());
        region.n_bytes = n_bytes;
        EXPECT_EQ(table.add_memory(engine, &region, &handle_), KVP_OK);
    }
    ~Memory() {
        if (handle_ == nullptr) return;
        EXPECT_EQ(remove(), KVP_OK);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    kvp_status remove() {
        const kvp_status status = table_.remove_memory(engine_, handle_);
        if (status == KVP_OK) handle_ = nullptr;
        return status;
    }

    kvp_transfer_memory* handle() const { return handle_; }
    std::vector<uint8_t>& bytes() { return bytes_; }

private:
    const kvp_transfer& table_;
    kvp_transfer_engine* engine_;
    std::vector<uint8_t> bytes_;
    kvp_transfer_memory* handle_ = nullptr;
};

// A batch with its lists.
struct Batch {
    Batch(const Memory& from, const Memory& to, uint64_t piece_bytes, std::vector<uint64_t> from_list,
          std::vector<uint64_t> to_list, uint64_t tag)
        : from_offsets(std::move(from_list)), to_offsets(std::move(to_list)) {
        batch.head = KVP_HEAD(kvp_transfer_batch);
        batch.from = from.handle();
        batch.to = to.handle();
        batch.from_offsets = from_offsets.data();
        batch.to_offsets = to_offsets.data();
        batch.piece_bytes = piece_bytes;
        batch.n_pieces = static_cast<uint32_t>(from_offsets.size());
        batch.priority = KVP_PRIORITY_FOREGROUND;
        batch.tag = tag;
    }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    std::vector<uint64_t> from_offsets, to_offsets;
    kvp_transfer_batch batch = {};
};

class Engine {
public:
    explicit Engine(std::shared_ptr<Plugin> plugin)
        : plugin_(std::move(plugin)), table_(plugin_->kind<kvp_transfer>()) {
        EXPECT_EQ(table_.open(&engine_), KVP_OK);
    }
    ~Engine() { table_.close(engine_); }
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    const kvp_transfer& table() const { return table_; }
    kvp_transfer_engine* get() const { return engine_; }
    std::string explain(kvp_status status) const { return plugin_->explain(status); }

    kvp_status submit(const Batch& batch) { return table_.submit(engine_, &batch.batch); }

    // Up to `most` records that are there within the time.
    std::vector<kvp_transfer_record> poll(size_t most, uint64_t timeout_ns = 0) {
        std::vector<kvp_transfer_record> records(most);
        std::vector<kvp_transfer_record*> pointers;
        for (auto& record : records) {
            record.head = KVP_HEAD(kvp_transfer_record);
            pointers.push_back(&record);
        }
        uint32_t n_filled = 0;
        EXPECT_EQ(table_.poll(engine_, pointers.data(), static_cast<uint32_t>(most), timeout_ns, &n_filled), KVP_OK);
        EXPECT_LE(n_filled, most);
        records.resize(n_filled);
        return records;
    }

    // Exactly `n` records; gives up, and fails the test, when none comes for ten seconds.
    std::vector<kvp_transfer_record> wait(size_t n) {
        std::vector<kvp_transfer_record> all;
        while (all.size() < n) {
            const auto some = poll(n - all.size(), 10 * second_ns);
            if (some.empty()) {
                ADD_FAILURE() << "only " << all.size() << " of " << n << " records came";
                break;
            }
            all.insert(all.end(), some.begin(), some.end());
        }
        return all;
    }

private:
    std::shared_ptr<Plugin> plugin_;
    const kvp_transfer& table_;
    kvp_transfer_engine* engine_ = nullptr;
};

}  // namespace kvplane::test
