// kvplane bench compare: the verdict on two results.
#include "command_line.h"

namespace kvplane::test {

class BenchCompare : public CommandLine {
protected:
    struct Speed {
        std::string cell;
        double least, median, most;
        std::string pipeline = "dense";
    };

    std::string result(const std::string& name, const std::vector<Speed>& speeds) const {
        nlohmann::json rows = nlohmann::json::array();
        for (const Speed& speed : speeds) {
            rows.push_back({{"cell", speed.cell},
                            {"pipeline", speed.pipeline},
                            {"median", speed.median},
                            {"min", speed.least},
                            {"max", speed.most}});
        }
        return write(name, nlohmann::json({{"schema_version", 1}, {"results", rows}}).dump());
    }

    // Verdict of each cell, and of all.
    std::vector<std::string> verdicts(const Arguments& arguments, int exit_code) const {
        Arguments all = {"bench", "compare", "--json"};
        all.insert(all.end(), arguments.begin(), arguments.end());
        const ProgramResult done = run(all);
        EXPECT_EQ(done.exit_code, exit_code) << done.errors;
        const auto document = parse_json(done.output);
        std::vector<std::string> found;
        for (const auto& row : document.at("results")) found.push_back(row.at("verdict"));
        found.push_back(document.at("verdict"));
        return found;
    }
};

TEST_F(BenchCompare, a_cell_changed_when_its_runs_do_not_overlap_the_old_ones) {
    const std::string before =
        result("old.json", {{"pp512", 95, 100, 105}, {"tg64", 95, 100, 105}, {"tg32", 95, 100, 105}});
    const std::string after =
        result("new.json", {{"tg64", 112, 115, 118}, {"pp512", 103, 115, 120}, {"tg32", 80, 88, 96}});
    EXPECT_EQ(verdicts({before, after}, 0), (std::vector<std::string>{"faster", "same", "same", "faster"}));
    const std::string slower =
        result("slower.json", {{"pp512", 80, 85, 94}, {"tg64", 112, 115, 118}, {"tg32", 95, 100, 105}});
    EXPECT_EQ(verdicts({before, slower}, 7), (std::vector<std::string>{"slower", "faster", "same", "slower"}));
    EXPECT_EQ(verdicts({before, before}, 0), (std::vector<std::string>{"same", "same", "same", "same"}));
}

TEST_F(BenchCompare, a_small_change_counts_only_beyond_the_tolerance) {
    const std::string before = result("old.json", {{"pp512", 99.9, 100, 100.1}});
    const std::string after = result("new.json", {{"pp512", 97.9, 98, 98.1}});
    EXPECT_EQ(verdicts({before, after}, 0), (std::vector<std::string>{"same", "same"}));
    EXPECT_EQ(verdicts({before, after, "--tolerance", "0.01"}, 7), (std::vector<std::string>{"slower", "slower"}));
}

TEST_F(BenchCompare, ratios_come_with_their_spread) {
    const std::string before = result("old.json", {{"pp512", 80, 100, 125}});
    const std::string after = result("new.json", {{"pp512", 100, 150, 200}});
    const auto row = json({"bench", "compare", before, after}).at("results").at(0);
    EXPECT_DOUBLE_EQ(row.at("ratio"), 1.5);
    EXPECT_DOUBLE_EQ(row.at("ratio_min"), 0.8);
    EXPECT_DOUBLE_EQ(row.at("ratio_max"), 2.5);
    const std::string table = output({"bench", "compare", before, after});
    EXPECT_NE(table.find("| pp512 | 100.0 | 150.0 | 1.500 | 0.800-2.500 | same |"), std::string::npos) << table;
    EXPECT_NE(table.find("SAME: 0 slower, 0 faster, 1 the same"), std::string::npos) << table;
}

TEST_F(BenchCompare, pipelines_match_by_name_unless_each_side_has_one) {
    const std::string two = result("two.json", {{"pp8", 99, 100, 101, "dense"}, {"pp8", 199, 200, 201, "infinigen"}});
    const std::string other = result("other.json", {{"pp8", 199, 200, 201, "infinigen"}});
    EXPECT_EQ(verdicts({two, other}, 0), (std::vector<std::string>{"same", "same"}));
    const std::string dense = result("dense.json", {{"pp8", 99, 100, 101, "dense"}});
    EXPECT_EQ(verdicts({dense, other}, 0), (std::vector<std::string>{"faster", "faster"}));
    EXPECT_EQ(verdicts({other, dense}, 7), (std::vector<std::string>{"slower", "slower"}));
}

TEST_F(BenchCompare, cells_of_one_side_are_named) {
    const std::string before = result("old.json", {{"pp8", 99, 100, 101}, {"tg8", 99, 100, 101}});
    const std::string after = result("new.json", {{"pp8", 99, 100, 101}, {"tg9", 99, 100, 101}});
    const std::string table = output({"bench", "compare", before, after});
    EXPECT_NE(table.find("only in " + before + ": tg8"), std::string::npos) << table;
    EXPECT_NE(table.find("only in " + after + ": tg9"), std::string::npos) << table;
    expect_refusal({"bench", "compare", before, result("far.json", {{"tg1", 1, 2, 3}})}, 2, {"in common"});
}

TEST_F(BenchCompare, takes_what_bench_writes) {
    const std::string measured =
        write("measured.json",
              output({"bench", "-m", small_model, "--threads", "1", "--cells", "pp8,tg2", "-r", "2", "-o", "json"}));
    EXPECT_EQ(verdicts({measured, measured}, 0), (std::vector<std::string>{"same", "same", "same"}));
}

TEST_F(BenchCompare, refuses_what_is_no_result) {
    const std::string good = result("good.json", {{"pp8", 99, 100, 101}});
    const auto refused = [&](const std::string& text, const std::string& reason) {
        const std::string bad = write("bad.json", text);
        expect_refusal({"bench", "compare", good, bad}, 2, {bad, reason});
        expect_refusal({"bench", "compare", bad, good}, 2, {bad, reason});
    };
    refused("", "no JSON");
    refused("{\"results\": [", "no JSON");
    refused("[1, 2]", "no results");
    refused("{}", "no results");
    refused("{\"results\": 3}", "no results");
    refused("{\"results\": []}", "no results");
    refused("{\"results\": [3]}", "no cell");
    refused("{\"results\": [{\"cell\": 3}]}", "no cell");
    refused("{\"results\": [{\"cell\": \"pp8\", \"median\": \"fast\"}]}", "median");
    refused("{\"results\": [{\"cell\": \"pp8\", \"median\": 0, \"min\": 1, \"max\": 1}]}", "above zero");
    refused("{\"results\": [{\"cell\": \"pp8\", \"median\": 1, \"min\": 2, \"max\": 3}]}", "outside");
    const std::string row = "{\"cell\": \"pp8\", \"median\": 2, \"min\": 1, \"max\": 3}";
    refused("{\"results\": [" + row + "," + row + "]}", "twice");
    expect_refusal({"bench", "compare", good, path("absent.json")}, 2, {"absent.json"});
    expect_refusal({"bench", "compare", good}, 2, {"new"});
    expect_refusal({"bench", "compare", good, good, "--tolerance", "2"}, 2, {"--tolerance"});
}

}  // namespace kvplane::test
