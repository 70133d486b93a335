// Who leaves a full pool, on random traces against a program that knows tokens alone (tests/reference/pool_evictions.py).
#include <gtest/gtest.h>

#include <cmath>

#include "pool.h"
#include "rows_read.h"
#include "support/golden.h"

namespace kvplane::test {
namespace {

using infinigen::PoolPolicy;
using nlohmann::json;

class GoldenPool : public testing::TestWithParam<const char*> {};

// The rows that a step read of each KV head, as the core tells them to a strategy.
struct Use {
    explicit Use(const json& rows_of_heads) {
        for (const json& rows : rows_of_heads) {
            counts.push_back(static_cast<int32_t>(rows.size()));
            stride = std::max(stride, rows.size());
        }
        for (const json& rows : rows_of_heads) {
            index.insert(index.end(), rows.begin(), rows.end());
            index.resize(index.size() + stride - rows.size(), -1);
        }
    }
    std::vector<int32_t> index, counts;
    uint64_t stride = 0;
};

std::vector<int32_t> joined(const json& rows_of_heads) {
    std::vector<int32_t> all;
    for (const json& rows : rows_of_heads) all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

}  // namespace

TEST_P(GoldenPool, counts_and_chooses_as_the_reference_does) {
    const json golden = read_golden(std::string(GetParam()) + ".json");
    const uint32_t n_heads = golden["heads"], page_tokens = golden["page_tokens"];
    const int64_t sinks = golden["sinks"];
    infinigen::PoolSettings settings;
    settings.policy = golden["policy"] == "fifo"  ? PoolPolicy::fifo
                      : golden["policy"] == "lru" ? PoolPolicy::lru
                                                  : PoolPolicy::counter;
    settings.counter_bits = golden["bits"];
    infinigen::Pool pool(settings, n_heads);
    for (const json& event : golden["events"]) {
        if (event[0] == "rows") {
            pool.append(pool.n_rows(), event[1]);
        } else if (event[0] == "rewind") {
            pool.append(event[1], 0);
        } else if (event[0] == "use") {
            const Use use(event[1]);
            pool.use(use.index.data(), use.counts.data(), use.stride, sinks);
        } else {
            const auto expected = joined(event[2]);
            std::vector<int32_t> victims(expected.size());
            ASSERT_TRUE(pool.choose(golden["protect"] ? sinks : 0, event[1], page_tokens, victims.data()));
            ASSERT_EQ(victims, expected);
            pool.replace(event[1], page_tokens, victims.data());
        }
    }
    for (uint32_t head = 0; head < n_heads; head++) {
        std::vector<uint32_t> counts;
        for (int64_t row = 0; row < pool.n_rows(); row++) counts.push_back(pool.use_count(head, row));
        EXPECT_EQ(counts, golden["counts"][head].get<std::vector<uint32_t>>());
    }
}

// Through the ABI, with keys that say which token a row is.
TEST_P(GoldenPool, keeps_the_tokens_that_the_reference_keeps) {
    const json golden = read_golden(std::string(GetParam()) + ".json");
    auto model = small_model();
    model.n_layers = 1;
    model.n_kv_heads = golden["heads"];
    model.n_heads = model.n_kv_heads;
    model.page_tokens = golden["page_tokens"];
    FakeKvCore core(plugin_path("infinigen"), model,
                    {{"pool_tokens", golden["limit"].dump()},
                     {"pool_policy", golden["policy"]},
                     {"pool_counter_bits", golden["bits"].dump()},
                     {"protect_sinks", golden["protect"].dump()},
                     {"sinks", golden["sinks"].dump()},
                     {"source", "own_query"}});
    ASSERT_EQ(core.created, KVP_OK) << core.error();
    core.open();
    auto& sequence = core.sequences[0];
    int token = 0;
    for (const json& event : golden["events"]) {
        if (event[0] == "rows") {
            const int64_t n_rows = event[1];
            FakeRows rows = core.plain_rows(n_rows);
            for (size_t i = 0; i < rows.key.size(); i++) {
                rows.key[i] = static_cast<float>(token + static_cast<int>(i / (model.n_kv_heads * model.head_size)));
            }
            token += static_cast<int>(n_rows);
            if (n_rows > 1) {
                core.prefill(0, n_rows, rows);
            } else {
                core.decode(0, rows);
            }
        } else if (event[0] == "rewind") {
            ASSERT_EQ(core.table->seq_rewind(core.instance, sequence.abi.state, event[1]), KVP_OK) << core.error();
            sequence.abi.n_cached = event[1];
        } else if (event[0] == "use") {
            const Use use(event[1]);
            ASSERT_EQ(core.table->selected(core.instance, sequence.abi.state, 0, use.index.data(), use.counts.data(),
                                           use.stride),
                      KVP_OK);
        } else {
            ASSERT_EQ(core.replace_page(0, 0, event[1]), joined(event[2]));
        }
    }
    for (uint32_t head = 0; head < model.n_kv_heads; head++) {
        std::vector<int> tokens;
        for (int64_t row = 0; row < core.n_rows(0, 0); row++) {
            tokens.push_back(static_cast<int>(std::lround(core.row(sequence.layers[0], head, row)[0])));
        }
        EXPECT_EQ(tokens, golden["tokens"][head].get<std::vector<int>>());
    }
}

INSTANTIATE_TEST_SUITE_P(Infinigen, GoldenPool,
                         testing::Values("pool-fifo", "pool-fifo-sinks-too", "pool-lru", "pool-lru-sinks-too",
                                         "pool-counter-3-bits", "pool-counter-3-bits-sinks-too", "pool-counter-8-bits"),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace kvplane::test
