// kvplane trace: what is recorded is what the meter saw; rules as the reference has them; damaged files.
#include <cmath>
#include <fstream>
#include <sstream>

#include "command_line.h"

namespace kvplane::test {

namespace {

const std::string golden_trace = std::string(KVPLANE_GOLDEN_DIR) + "/trace/small.kvtrace";

std::string bytes_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    return bytes.str();
}

}  // namespace

class Trace : public CommandLine {
protected:
    void SetUp() override {
        std::string text;
        for (int i = 0; i < 6; ++i) text += "The quick brown fox " + std::to_string(i) + " jumps over the lazy dog. ";
        text_ = write("foxes.txt", text);
    }

    const Arguments settings_ = {"-p",    config_file("infinigen.toml"), "-m",    small_model,
                                 "--set", "device.exact_f32=true",       "--set", "kv.codec=f32",
                                 "--set", "kv.infinigen.recent=4",       "--set", "kv.infinigen.sinks=1",
                                 "--set", "kv.infinigen.min_tokens=6",   "--set", "kv.infinigen.centroids=off"};

    Arguments record(const std::string& file, const Arguments& more = {}) const {
        Arguments command = {"trace", "record", "--text", text_, "--tokens", "64", "--prompt", "40", "-o", file};
        command.insert(command.end(), settings_.begin(), settings_.end());
        command.insert(command.end(), more.begin(), more.end());
        return command;
    }

    std::string text_;
};

// The trace is of record() with --scores and kv.infinigen.dense_layers=1. Expected values: tests/reference/trace_rules.py.
TEST_F(Trace, rules_read_what_the_reference_says) {
    const auto report = json({"trace", "replay", golden_trace, "--rule",
                              "recorded,window,top,threshold,pages,heavy-hitters,snap", "--share", "0.2,0.5", "--sinks",
                              "2", "--recent", "4", "--page", "4", "--alpha", "2", "--resident", "0.25"});
    const auto expected = read_json(std::string(KVPLANE_GOLDEN_DIR) + "/trace/small.json");
    ASSERT_EQ(report.at("rules").size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
        const auto& found = report["rules"][i];
        EXPECT_EQ(found.at("rule"), expected[i].at("rule"));
        for (const char* figure : {"share_read", "kept_attention_mass", "hit_rate"}) {
            EXPECT_NEAR(found.at(figure).get<double>(), expected[i].at(figure).get<double>(), 1e-5)
                << figure << " of " << expected[i];
        }
    }
}

TEST_F(Trace, what_is_recorded_is_what_the_meter_saw) {
    const std::string file = path("run.kvtrace");
    output(record(file, {"--scores"}));
    const auto report = json({"trace", "replay", file, "--rule", "recorded,dense"});
    Arguments eval = {"eval",     "ppl", "--text",    text_, "--context",      "64",
                      "--prompt", "40",  "--windows", "1",   "--recall-every", "1"};
    eval.insert(eval.end(), settings_.begin(), settings_.end());
    const auto measured = json(eval);
    // The last token is decoded in the one and only predicted in the other.
    EXPECT_EQ(report.at("steps"), 24);
    EXPECT_EQ(report.at("looks"), 24);  // one of three layers selects
    EXPECT_NEAR(report["rules"][0].at("kept_attention_mass").get<double>(),
                measured.at("kv").at("kept_attention_mass").get<double>(), 0.02);
    EXPECT_NEAR(report["rules"][1].at("kept_attention_mass").get<double>(), 1, 2e-3) << "weights are kept as bf16";
    EXPECT_EQ(report["rules"][1].at("share_read"), 1);
    EXPECT_LT(report["rules"][0].at("share_read").get<double>(), 0.5);
}

TEST_F(Trace, the_same_run_gives_the_same_bytes_and_the_same_replay) {
    output(record(path("one"), {"--scores"}));
    output(record(path("two"), {"--scores"}));
    EXPECT_EQ(bytes_of(path("one")), bytes_of(path("two")));
    const Arguments replay = {"trace", "replay", path("one"), "--rule", "top,heavy-hitters"};
    EXPECT_EQ(output(replay), output(replay));
}

TEST_F(Trace, transfers_and_evictions_are_recorded) {
    const std::string file = path("run.kvtrace");
    output(record(file, {"--set", "kv.infinigen.pool_tokens=32", "--set", "memory.page_tokens=4"}));
    EXPECT_GT(json({"trace", "replay", file}).at("rows_evicted"), 0);
    // Two pages of 4 tokens a layer are 2 * 2 * 4 rows of 128 bytes; the rest has to come from the host tier.
    output(record(file, {"--set", "memory.page_tokens=4", "--set", "memory.staging_pages=2", "--set",
                         "tiers.host.access=copy", "--set", "tiers.device.kv_bytes=20KiB"}));
    EXPECT_GT(json({"trace", "replay", file}).at("bytes_to_device"), 0);
}

TEST_F(Trace, rows_that_strategies_drop_are_recorded) {
    const auto evicted = [&](const Arguments& of) {
        Arguments command = {"trace", "record", "--text", text_, "--tokens", "64", "--prompt", "40", "-m", small_model};
        command.insert(command.end(), of.begin(), of.end());
        command.insert(command.end(), {"-o", path("run.kvtrace")});
        output(command);
        const auto report = json({"trace", "replay", path("run.kvtrace")});
        return std::pair<int, int>(report.at("rows_evicted_after_prompt"), report.at("rows_evicted"));
    };
    // Three layers. h2o: 40 rows of the prompt come down to 16, then one leaves for each that comes. snapkv: once.
    const auto h2o =
        evicted({"-p", config_file("h2o.toml"), "--set", "kv.h2o.tokens=16", "--set", "kv.h2o.interval=1"});
    EXPECT_EQ(h2o, (std::pair<int, int>(3 * (40 - 16), 3 * 24)));
    const auto snapkv = evicted({"-p", config_file("snapkv.toml"), "--set", "kv.snapkv.tokens=16"});
    EXPECT_EQ(snapkv, (std::pair<int, int>(3 * (40 - 16), 0)));
    // The window drops whole pages of 8 before a step: the last one begins with 63 rows, 48 less its own are out of sight.
    const auto window = evicted({"-p", config_file("window.toml"), "--set", "kv.window.tokens=16", "--set",
                                 "kv.window.sinks=0", "--set", "memory.page_tokens=8"});
    EXPECT_EQ(window, (std::pair<int, int>(0, 3 * 40)));
}

TEST_F(Trace, a_rule_that_needs_weights_is_refused_without_them) {
    const std::string file = path("run.kvtrace");
    output(record(file));
    EXPECT_GT(json({"trace", "replay", file, "--rule", "window"})["rules"][0].at("share_read"), 0);
    expect_refusal({"trace", "replay", file, "--rule", "top"}, 2, {"--scores"});
    expect_refusal({"trace", "replay", file, "--rule", "best"}, 2, {"best"});
}

TEST_F(Trace, a_damaged_file_is_refused_wherever_the_damage_is) {
    const std::string whole = bytes_of(golden_trace);
    ASSERT_GT(whole.size(), 2000u);
    const auto refused = [&](const std::string& bytes) {
        expect_refusal({"trace", "replay", write("bad.kvtrace", bytes)}, 2, {"bad.kvtrace"});
    };
    for (size_t at = 0; at < whole.size(); at += whole.size() / 40) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ 0x40);
        refused(bytes);
        refused(whole.substr(0, at));
    }
    refused(whole + "x");
    refused("");
    expect_refusal({"trace", "replay", path("absent")}, 2, {path("absent")});
}

}  // namespace kvplane::test
