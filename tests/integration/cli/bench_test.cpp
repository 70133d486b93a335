// kvplane bench: what it says of each cell, in every format.
#include <algorithm>
#include <map>
#include <sstream>

#include "command_line.h"

namespace kvplane::test {

namespace {

// Bytes of tiny-gqa-f32 by the shape that tests/reference/make_tiny_models.py gives it: 3 layers, width 64, 4 heads and 2
// KV heads of 16, FFN 64, 272 tokens, all F32, the embedding serves as output matrix.
constexpr double layer_weights = 4 * (3 * (2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 64) + 64);
constexpr double output_weights = 4 * 272 * 64;
constexpr double embedding_row = 4 * 64;
constexpr double kv_of_a_row = 2 * 3 * 2 * 16 * 2;  // K and V, layers, KV heads, head size, f16

// Rows before a decoded token, mean over all runs, by going through every step: one warms up for each run.
double mean_depth(int depth, int tokens, int runs) {
    double sum = 0;
    int at = depth + 2;
    for (int run = 0; run < runs; ++run) {
        ++at;
        for (int i = 0; i < tokens; ++i) sum += at++;
    }
    return sum / (runs * tokens);
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

}  // namespace

class Bench : public CommandLine {
protected:
    Arguments bench(const Arguments& more) const {
        Arguments all = {"bench", "-m", small_model, "--threads", "1"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
};

TEST_F(Bench, measures_every_cell) {
    const auto report = json(bench({"--cells", "pp32,tg4@16x2,tg3x2", "-r", "3"}));
    ASSERT_EQ(report.at("results").size(), 3u);
    const auto expect_cell = [&](size_t i, const char* name, int prompt, int gen, int depth, int sequences) {
        const auto& result = report.at("results").at(i);
        EXPECT_EQ(result.at("cell"), name);
        EXPECT_EQ(result.at("n_prompt"), prompt);
        EXPECT_EQ(result.at("n_gen"), gen);
        EXPECT_EQ(result.at("n_depth"), depth);
        EXPECT_EQ(result.at("sequences"), sequences);
        EXPECT_EQ(result.at("runs"), 3);
        const double least = result.at("min"), median = result.at("median"), most = result.at("max");
        EXPECT_GT(least, 0);
        EXPECT_LE(least, median);
        EXPECT_LE(median, most);
        EXPECT_NEAR(result.at("spread").get<double>(), (most - least) / median, 1e-9);
        const double limit = result.at("read_limit_bytes_per_second");
        EXPECT_GT(limit, 1e8);
        EXPECT_LT(limit, 1e13);
        EXPECT_NEAR(result.at("share_of_read_limit").get<double>(),
                    median * result.at("bytes_per_token").get<double>() / limit, 1e-9);
    };
    expect_cell(0, "pp32", 32, 0, 0, 1);
    expect_cell(1, "tg4@16x2", 0, 4, 16, 2);
    expect_cell(2, "tg3x2", 0, 3, 0, 2);
}

TEST_F(Bench, names_machine_model_and_program) {
    const auto report = json(bench({"--cells", "pp8", "-r", "1"}));
    EXPECT_EQ(report.at("strategy"), "dense");
    EXPECT_EQ(report.at("threads"), 1);
    const auto& facts = report.at("facts");
    EXPECT_EQ(facts.at("version"), KVPLANE_VERSION);
    EXPECT_EQ(facts.at("model"), small_model);
    EXPECT_EQ(facts.at("tensor_types"), "f32 29");
    EXPECT_EQ(facts.at("model_bytes"), std::filesystem::file_size(small_model));
    EXPECT_GT(facts.at("memory_bytes"), 0);
    for (const char* name : {"commit", "cpu", "kernel", "instruction_level"}) {
        EXPECT_TRUE(facts.at(name).is_string()) << name;
    }
    EXPECT_EQ(report.at("results").at(0).at("kv_type"), "f16");
    EXPECT_EQ(report.at("results").at(0).at("pipeline"), "defaults");
}

TEST_F(Bench, bytes_of_a_decoded_token_are_the_weights_of_its_share_and_all_its_rows) {
    const auto report = json(bench({"--cells", "tg4@16x2,tg5@100", "-r", "3"}));
    const auto& two = report.at("results").at(0);
    EXPECT_NEAR(two.at("weight_bytes_per_token"), (layer_weights + output_weights) / 2 + embedding_row, 0.5);
    EXPECT_NEAR(two.at("kv_bytes_per_token"), mean_depth(16, 4, 3) * kv_of_a_row, 0.5);
    EXPECT_NEAR(two.at("bytes_per_token").get<double>(),
                two.at("weight_bytes_per_token").get<double>() + two.at("kv_bytes_per_token").get<double>(), 0.5);
    const auto& one = report.at("results").at(1);
    EXPECT_NEAR(one.at("weight_bytes_per_token"), layer_weights + output_weights + embedding_row, 0.5);
    EXPECT_NEAR(one.at("kv_bytes_per_token"), mean_depth(100, 5, 3) * kv_of_a_row, 0.5);
    EXPECT_EQ(one.at("kv_bytes_basis"), "all rows");
    EXPECT_EQ(one.at("index_bytes_per_token"), 0);
}

// Chunks of 64, 64 and 32 rows end at rows 64, 128 and 160.
TEST_F(Bench, bytes_of_a_prompt_are_the_weights_and_rows_of_each_chunk) {
    const auto report = json(bench({"--cells", "pp160", "-r", "1", "--set", "schedule.chunk_tokens=64"}));
    const auto& result = report.at("results").at(0);
    EXPECT_NEAR(result.at("weight_bytes_per_token"), (3 * layer_weights + output_weights) / 160 + embedding_row, 0.5);
    EXPECT_NEAR(result.at("kv_bytes_per_token"), kv_of_a_row * (64 + 128 + 160) / 160, 0.5);
}

// InfiniGen selects in the last of the three layers. For each row before, and KV head, it goes through 12 columns of
// a byte and a scale; 7 pages are too few to choose among. Their means of K and V in f32 are read with the rows.
TEST_F(Bench, bytes_of_a_strategy_that_selects_are_those_that_it_read) {
    const auto report = json(bench({"-p", config_file("infinigen.toml"), "--cells", "tg4@400", "-r", "2", "--set",
                                    "kv.infinigen.fixed_share=0.25"}));
    const auto& result = report.at("results").at(0);
    EXPECT_EQ(result.at("strategy"), "infinigen");
    EXPECT_EQ(result.at("kv_bytes_basis"), "counted");
    const double depth = mean_depth(400, 4, 2);
    // A quarter, and the sinks and recent rows that are always read.
    const double selecting_layer = depth * kv_of_a_row / 3;
    const double means = 7 * 2 * 2 * 16 * 4;
    const double read = result.at("kv_bytes_per_token").get<double>() - 2 * selecting_layer - means;
    EXPECT_GT(read, 0.2 * selecting_layer);
    EXPECT_LT(read, 0.45 * selecting_layer);
    EXPECT_NEAR(result.at("index_bytes_per_token"), depth * 2 * (12 + 4), 0.5);
}

TEST_F(Bench, several_pipelines_take_turns_and_are_named) {
    for (const Arguments& order : {Arguments{}, Arguments{"--interleave"}}) {
        Arguments arguments = bench({"-p", config_file("dense.toml"), "-p", config_file("infinigen.toml"), "--cells",
                                     "pp16,tg3@70,tg3x3", "-r", "2"});
        arguments.insert(arguments.end(), order.begin(), order.end());
        const auto results = json(arguments).at("results");
        std::vector<std::string> names;
        for (const auto& result : results) {
            names.push_back(result.at("cell").get<std::string>() + " " + result.at("pipeline").get<std::string>());
            EXPECT_EQ(result.at("pipeline"), result.at("strategy"));
            EXPECT_EQ(result.at("runs"), 2);
        }
        EXPECT_EQ(names, (std::vector<std::string>{"pp16 dense", "pp16 infinigen", "tg3@70 dense", "tg3@70 infinigen",
                                                   "tg3x3 dense", "tg3x3 infinigen"}));
    }
}

TEST_F(Bench, held_contexts_that_do_not_fit_are_refused) {
    expect_refusal(bench({"--cells", "tg4@100,tg4@100x3", "-r", "1", "--interleave", "--set",
                          "tiers.device.kv_bytes=100K", "--set", "tiers.host.kv_bytes=0"}),
                   6, {"tg4@100x3", "--interleave"});
}

TEST_F(Bench, json_lines_hold_result_and_facts) {
    const auto lines = lines_of(output(bench({"--cells", "pp16,tg3", "-r", "2", "-o", "jsonl"})));
    ASSERT_EQ(lines.size(), 2u);
    for (const std::string& line : lines) {
        const auto row = parse_json(line);
        for (const char* key : {"cell", "median", "min", "max", "bytes_per_token", "read_limit_bytes_per_second",
                                "version", "cpu", "threads", "model"}) {
            EXPECT_TRUE(row.contains(key)) << key;
        }
    }
}

TEST_F(Bench, csv_has_a_line_of_names_and_as_many_fields_in_each) {
    const auto lines = lines_of(output(bench({"--cells", "pp16,tg3", "-r", "2", "-o", "csv"})));
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_TRUE(lines[0].starts_with("cell,pipeline,strategy,kv_type,n_prompt,n_gen,n_depth,sequences,median,"));
    std::vector<size_t> fields;
    for (const std::string& line : lines) {
        bool quoted = false;
        size_t n = 1;
        for (char c : line) {
            if (c == '"') quoted = !quoted;
            if (c == ',' && !quoted) ++n;
        }
        fields.push_back(n);
    }
    EXPECT_EQ(fields, std::vector<size_t>(3, fields[0]));
    EXPECT_TRUE(lines[1].starts_with("pp16,defaults,dense,f16,16,0,0,1,"));
}

TEST_F(Bench, a_markdown_table_is_the_default) {
    const auto lines = lines_of(output(bench({"--cells", "pp16,tg3@20x2", "-r", "2"})));
    ASSERT_GT(lines.size(), 4u);
    const auto bars = [](const std::string& line) { return std::count(line.begin(), line.end(), '|'); };
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(bars(lines[i]), bars(lines[0])) << lines[i];
    EXPECT_TRUE(lines[2].starts_with("| defaults | pp16 | 16 | 0 | 0 | 1 |")) << lines[2];
    EXPECT_TRUE(lines[3].starts_with("| defaults | tg3@20x2 | 0 | 3 | 20 | 2 |")) << lines[3];
}

// Every op of the last run, by the shape above: 32 rows go through 3 layers; row p of a prompt attends to p + 1 rows.
TEST_F(Bench, a_profile_counts_calls_bytes_and_operations_of_every_op) {
    const auto report = json(bench({"--cells", "pp32", "-r", "2", "--profile"}));
    const auto& profile = report.at("results").at(0).at("profile");
    EXPECT_EQ(profile.at("tokens"), 32);
    std::map<std::string, nlohmann::json> ops;
    double share = profile.at("between_ops").at("share_of_time");
    for (const auto& op : profile.at("ops")) {
        ops[op.at("op").get<std::string>() + " " + op.at("constants").get<std::string>()] = op;
        share += op.at("share_of_time").get<double>();
        EXPECT_GT(op.at("seconds").get<double>(), 0);
        EXPECT_NEAR(
            op.at("share_of_read_limit").get<double>() * profile.at("read_limit_bytes_per_second").get<double>(),
            op.at("bytes_per_token").get<double>() * 32 / op.at("seconds").get<double>(), 1e3);
    }
    EXPECT_NEAR(share, 1, 1e-6);
    EXPECT_GE(profile.at("between_ops").at("seconds").get<double>(), 0);
    const auto expect_op = [&](const char* name, int calls, double bytes, double operations) {
        ASSERT_TRUE(ops.contains(name)) << name << " in " << profile;
        EXPECT_EQ(ops[name].at("calls"), calls) << name;
        EXPECT_NEAR(ops[name].at("bytes_per_token"), bytes, 0.5) << name;
        EXPECT_NEAR(ops[name].at("operations_per_token"), operations, 0.5) << name;
    };
    const double row = 4 * 64;  // of the residual stream
    expect_op("kvp.attention/1 ", 3, 3 * (2 * row + 4 * 4) + kv_of_a_row, 3 * 4.0 * 16 * 4 * (32 * 33 / 2) / 32);
    expect_op("kvp.embed/1 f32 64>272", 1, embedding_row + row + 4, 0);
    // Once, for the last row.
    expect_op("kvp.linear/1 f32 64>272", 1, (output_weights + row + 4 * 272) / 32, 2.0 * 64 * 272 / 32);
}

// A decode step of 2 sequences: the query row of each scores the rows that it has had, in the one layer that selects.
TEST_F(Bench, a_profile_sees_the_ops_of_a_strategy) {
    const auto report =
        json(bench({"-p", config_file("infinigen.toml"), "--cells", "tg4@400x2", "-r", "1", "--profile"}));
    const auto& profile = report.at("results").at(0).at("profile");
    EXPECT_EQ(profile.at("tokens"), 8);
    size_t found = 0;
    for (const auto& op : profile.at("ops")) {
        if (op.at("op") != "kvp.partial_scores/1") continue;
        ++found;
        EXPECT_EQ(op.at("calls"), 2 * 4);
        EXPECT_NEAR(op.at("bytes_per_token"), mean_depth(400, 4, 1) * 2 * (12 + 4 + 4), 40);
    }
    EXPECT_EQ(found, 1u);
}

TEST_F(Bench, a_profile_stands_below_the_table_and_not_in_csv) {
    const std::string text = output(bench({"--cells", "pp16,tg3", "-r", "1", "--profile"}));
    EXPECT_NE(text.find("\npp16, defaults: "), std::string::npos) << text;
    EXPECT_NE(text.find("\ntg3, defaults: "), std::string::npos) << text;
    EXPECT_NE(text.find("| between the ops |"), std::string::npos) << text;
    EXPECT_EQ(output(bench({"--cells", "pp16", "-r", "1"})).find("between the ops"), std::string::npos);
    expect_refusal(bench({"--profile", "-o", "csv"}), 2, {"--profile", "jsonl"});
}

TEST_F(Bench, refuses_cells_that_are_none) {
    for (const char* cell : {"", "pp", "pp0", "pp-4", "pp32@4", "pp32x2", "tg@4", "tg8@", "tg8x0", "tg8x2@4",
                             "tg8x1000", "tg99999999", "tg8 ", "xy8"}) {
        const std::string quoted = "\"" + std::string(cell) + "\"";
        expect_refusal({"bench", "-m", small_model, "--cells", std::string("pp32,") + cell + ",tg8"}, 2,
                       {quoted, "ppN"});
    }
}

TEST_F(Bench, refuses_arguments_that_make_no_sense) {
    expect_refusal(bench({"-o", "xml"}), 2, {"xml", "jsonl"});
    expect_refusal(bench({"-r", "0"}), 2, {"--repeats"});
    expect_refusal(bench({"-p", path("absent.toml")}), 3, {"absent.toml"});
    expect_refusal({"bench", "--cells", "pp8"}, 2, {"model"});
}

}  // namespace kvplane::test
