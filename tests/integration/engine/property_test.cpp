// Random batches of ragged texts, with forks, rewinds and held requests, in memories of the smallest size: whatever the
// strategy, the codec and the place of rows are, each text comes out as it does alone in a memory that holds everything, the
// device is told to read sound sets of rows (checking_device.cpp), and nothing is left over.
//
// KVPLANE_TEST_SEED sets the seed; a failure prints it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/error.h"
#include "property_cases.h"
#include "support/sanitizer.h"
#include "support/test_engine.h"

namespace kvplane::test {
namespace {

const std::string model = std::string(KVPLANE_GOLDEN_DIR) + "/tiny/tiny-gqa-f32.gguf";  // 3 layers, 2 KV heads of 16
constexpr int64_t kMostTokens = 90;
constexpr double kOtherChoice = 8;  // what another choice may do, in tolerances of the codec

using Logits = std::map<int64_t, std::vector<float>>;

struct Text {
    uint64_t id;
    std::vector<int32_t> ids;
    int64_t prompt = 0;
    bool prompt_ended = false;
    bool has_past = false;  // its prompt came in several steps, or it was rewound
    bool was_rewound = false;
    bool is_held = false;
    bool waited = false;  // had tokens to go through while it was held
    Logits found;
};

// So that a test that does nothing cannot pass.
struct Done {
    int forks = 0;
    int rewinds = 0;
    int positions = 0;  // compared
    int texts = 0;
    int other_choices = 0;                               // texts in which a strategy chose other rows
    std::map<std::string, int> waited;                   // texts that were held, by strategy
    std::map<std::string, std::pair<int, int>> recoded;  // texts in which some value got another code, of all, by codec
    uint64_t moved_bytes = 0;
};

class RandomBatch {
public:
    RandomBatch(uint32_t seed, const StrategyCase& strategy, const CodecCase& codec, const Place& place)
        : random_(seed), strategy_(strategy), codec_(codec) {
        Settings limits;
        if (place.device_pages > 0) {
            limits = tiny_limits(model, 1);
            const uint64_t page = std::max(codec.least_page, 4u);
            limits[0] = "memory.page_tokens=" + std::to_string(page);
            // Bytes of a page are the codec's; an engine says them.
            TestEngine probe(model, settings({limits[0]}));
            const uint64_t page_bytes = probe.engine->kv_bytes_per_token() * page / 3;
            limits.back() =
                "tiers.device.kv_bytes=" + std::to_string(static_cast<uint64_t>(place.device_pages) * page_bytes);
            limits.push_back(std::string("tiers.host.access=") + (place.in_place ? "direct" : "copy"));
        } else {
            limits.push_back("memory.page_tokens=" + std::to_string(std::max(codec.least_page, 4u)));
        }
        page_setting_ = limits[0].find("page_tokens") != std::string::npos ? limits[0] : limits.back();
        test_ = std::make_unique<TestEngine>(model, settings(limits), EngineLimits{4, 0});
    }

    void go(Done& done) {
        for (int i = 0; i < 60; ++i) act();
        for (Text& text : texts_) hold(text, false);
        run_steps(1000);
        for (Text& text : texts_) {
            compare(text);
            engine().forget(text.id);
        }
        for (const auto& [name, tier] : engine().tiers()) EXPECT_EQ(tier.used_bytes, 0u) << name;
        for (const auto& [way, totals] : engine().transfers()) done_.moved_bytes += totals.bytes;
        done.forks += done_.forks;
        done.rewinds += done_.rewinds;
        done.positions += done_.positions;
        done.texts += done_.texts;
        done.other_choices += done_.other_choices;
        for (const auto& [name, n] : done_.waited) done.waited[name] += n;
        for (const auto& [name, n] : done_.recoded) {
            done.recoded[name].first += n.first;
            done.recoded[name].second += n.second;
        }
        done.moved_bytes += done_.moved_bytes;
    }

private:
    Engine& engine() { return *test_->engine; }
    int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }
    std::vector<int32_t> some_tokens(int64_t n) {
        std::vector<int32_t> ids(static_cast<size_t>(n));
        for (int32_t& id : ids) id = static_cast<int32_t>(below(270));
        return ids;
    }
    bool is_kivi() const { return codec_.least_page > 4; }
    bool depends_on_steps() const {
        return is_kivi() || strategy_.rows == Rows::replaced || strategy_.rows == Rows::chunked;
    }

    Settings settings(Settings more) const {
        more.insert(more.end(), strategy_.settings.begin(), strategy_.settings.end());
        more.insert(more.end(), {std::string("kv.codec=") + codec_.name, "device.exact_f32=true", "device.threads=1",
                                 "schedule.chunk_tokens=16", std::string("device.plugin=") + KVPLANE_CHECKING_DEVICE});
        if (is_kivi()) more.push_back("codec.kivi.recent_tokens=8");
        return more;
    }

    void run_steps(int n) {
        for (int i = 0; i < n && engine().step(); ++i) {
        }
    }

    void act() {
        if (texts_.empty()) return open();
        Text& text = *std::next(texts_.begin(), below(static_cast<int64_t>(texts_.size())));
        switch (below(8)) {
            case 0: return open();
            case 1: return fork(text);
            case 2: return rewind(text);
            case 3: hold(text, below(2) == 0); break;
            case 4:
                if (below(4) != 0) break;
                engine().forget(text.id);
                texts_.remove_if([&](const Text& other) { return &other == &text; });
                break;
            default: feed(text); break;
        }
        run_steps(static_cast<int>(below(6)));
    }

    void hold(Text& text, bool held) {
        engine().hold(text.id, held);
        text.is_held = held;
    }

    void open() {
        if (texts_.size() >= 4) return;
        texts_.push_back({});
        try {
            texts_.back().id = engine().open_text(kMostTokens);
        } catch (const Error& error) {  // it never fits
            EXPECT_EQ(error.kind(), ErrorKind::memory);
            texts_.pop_back();
        }
    }

    void feed(Text& text) {
        const auto n_ids = static_cast<int64_t>(text.ids.size());
        const bool in_one_step = depends_on_steps() && !text.prompt_ended && below(2) == 0;  // else little is compared
        const int64_t n = std::min(kMostTokens - n_ids, 1 + below(text.prompt_ended ? 6 : in_one_step ? 16 : 30));
        if (n <= 0) return;
        text.waited = text.waited || text.is_held;
        const auto more = some_tokens(n);
        const Feed how = text.prompt_ended              ? Feed::decode
                         : in_one_step || below(2) == 1 ? Feed::prompt_end
                                                        : Feed::prompt_part;
        text.has_past = text.has_past || (how != Feed::decode && (n_ids > 0 || n > 16));
        Logits& found = text.found;
        engine().feed(text.id, more, how, [&found](int64_t position, std::span<float> row) {
            found[position].assign(row.begin(), row.end());
        });
        text.ids.insert(text.ids.end(), more.begin(), more.end());
        if (how != Feed::decode) text.prompt = static_cast<int64_t>(text.ids.size());
        text.prompt_ended = text.prompt_ended || how != Feed::prompt_part;
    }

    void fork(Text& text) {
        if (texts_.size() >= 4) return;
        hold(text, false);
        run_steps(1000);  // what waits in a fork has no listener
        uint64_t id = 0;
        try {
            id = engine().fork(text.id, kMostTokens);
        } catch (const Error& error) {  // the text waits for room itself
            EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
        }
        if (id == 0) return;
        ++done_.forks;
        texts_.push_back(text);
        texts_.back().id = id;
    }

    void rewind(Text& text) {
        const auto n_ids = static_cast<int64_t>(text.ids.size());
        if (n_ids == 0) return;
        const int64_t length = n_ids - below(std::min<int64_t>(n_ids, 12));
        try {
            engine().rewind(text.id, length);
        } catch (const Error& error) {  // into infinigen's prompt, below what a pool let go, or no room for copies
            EXPECT_TRUE(error.kind() == ErrorKind::plugin || error.kind() == ErrorKind::usage ||
                        error.kind() == ErrorKind::memory)
                << error.what();
            return;
        }
        ++done_.rewinds;
        text.has_past = text.was_rewound = true;
        text.ids.resize(static_cast<size_t>(length));
        text.found.erase(text.found.lower_bound(length), text.found.end());
        if (length < text.prompt) {
            text.prompt = length;
            text.prompt_ended = false;
        }
    }

    void compare(const Text& text) {
        if (text.ids.empty()) return;
        const bool is_whole = text.prompt_ended && !text.found.empty();
        if (!is_whole) return;
        const Logits alone = TestEngine(model, settings({page_setting_})).logits(text.ids, text.prompt, 0);
        // What kivi stores, and what leaves a pool, depends on the steps that rows came in.
        if (depends_on_steps() && text.has_past) return;
        // Rows leave by the votes of a prompt's last queries, of which a rewind leaves fewer.
        if (strategy_.rows == Rows::evicted && text.was_rewound) return;
        double most = 0;
        for (const auto& [position, row] : text.found) {
            ++done_.positions;
            most = std::max(most, largest_difference(row, alone.at(position)));
        }
        ++done_.texts;
        done_.waited[strategy_.name] += text.waited ? 1 : 0;
        auto& [recoded, all] = done_.recoded[codec_.name];
        recoded += most > codecs[0].tolerance ? 1 : 0;
        ++all;
        if (most <= (is_kivi() ? 2.0 : codec_.tolerance)) return;
        ++done_.other_choices;
        // Values that get the next code turn near ties of scores.
        const bool is_selective =
            strategy_.rows == Rows::selected || strategy_.rows == Rows::replaced || strategy_.rows == Rows::evicted;
        EXPECT_TRUE(is_selective && codec_.tolerance > 1e-3) << "differs by " << most;
        EXPECT_LE(most, kOtherChoice * codec_.tolerance);
    }

    std::mt19937 random_;
    const StrategyCase& strategy_;
    const CodecCase& codec_;
    std::string page_setting_;
    std::unique_ptr<TestEngine> test_;
    std::list<Text> texts_;
    Done done_;
};

class Property : public testing::TestWithParam<bool> {
protected:
    void SetUp() override {
        if (!GetParam()) setenv("KVPLANE_TEST_REFUSED_OPS", "row types", 1);
    }
    void TearDown() override { unsetenv("KVPLANE_TEST_REFUSED_OPS"); }
};

// Whether the device reads the codecs' rows itself, or the core decodes them.
INSTANTIATE_TEST_SUITE_P(Devices, Property, testing::Bool(),
                         [](const auto& info) { return info.param ? "knows_the_codecs" : "knows_f16_alone"; });

void run(uint32_t seed, uint32_t number, const StrategyCase& strategy, const CodecCase& codec, const Place& place,
         Done& done) {
    SCOPED_TRACE(std::string(strategy.name) + ", " + codec.name + ", " + place.name +
                 ": KVPLANE_TEST_SEED=" + std::to_string(seed));
    try {
        RandomBatch(seed * 7919 + number, strategy, codec, place).go(done);
    } catch (const Error& error) {
        ADD_FAILURE() << error.what();
    }
}

TEST_P(Property, every_text_comes_out_as_it_does_alone) {
    const char* const given = std::getenv("KVPLANE_TEST_SEED");
    Done done;
    const uint32_t n_seeds = given != nullptr || is_sanitized ? 1 : 2;
    const uint32_t first_seed = given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : 1;
    for (uint32_t seed = first_seed; seed < first_seed + n_seeds; ++seed) {
        uint32_t number = 0;
        for (const StrategyCase& strategy : strategies) {
            for (const CodecCase& codec : codecs) {
                if (strategy.is_refused(codec, GetParam())) {
                    EXPECT_THROW(RandomBatch(seed, strategy, codec, places[0]), Error) << strategy.name << codec.name;
                    continue;
                }
                for (const Place& place : places) {
                    run(seed, number++, strategy, codec, place, done);
                    if (testing::Test::HasFailure()) return;
                }
            }
        }
        for (const StrategyCase& strategy : variants) {
            for (const Place& place : places) {
                if (!GetParam() || place.device_pages != 8) continue;  // every device reads f32
                run(seed, number++, strategy, codecs[0], place, done);
                if (testing::Test::HasFailure()) return;
            }
        }
    }
    EXPECT_GT(done.forks, 150 * static_cast<int>(n_seeds));
    EXPECT_GT(done.rewinds, 400 * static_cast<int>(n_seeds));
    EXPECT_GT(done.positions, 4000 * static_cast<int>(n_seeds));
    EXPECT_GT(done.moved_bytes, 1u << 20);
    EXPECT_LE(done.other_choices * 50, done.texts);
    if (given == nullptr) {  // of another seed some may have none
        for (const StrategyCase& strategy : strategies) EXPECT_GT(done.waited[strategy.name], 0) << strategy.name;
    }
    for (const CodecCase& codec : codecs) {
        const auto [recoded, all] = done.recoded[codec.name];
        EXPECT_LE(recoded, codec.most_recoded * all) << codec.name << ", of " << all << " texts";
    }
}

}  // namespace
}  // namespace kvplane::test
