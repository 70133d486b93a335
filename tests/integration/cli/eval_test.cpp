// kvplane eval ppl over several pipelines: figures, resuming, chart, matrix files.
#include <fstream>
#include <sstream>

#include "command_line.h"

namespace kvplane::test {

namespace {

std::string foxes(int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "The quick brown fox " + std::to_string(i) + " jumps over the lazy dog. ";
    return text;
}

std::string read_text(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

std::vector<std::string> lines_of(const std::string& file) {
    std::istringstream in(read_text(file));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

}  // namespace

class Eval : public CommandLine {
protected:
    void SetUp() override { text_ = write("foxes.txt", foxes(12)); }

    // Four windows of 64 tokens, the last 32 decoded, in f32, unless `more` says otherwise.
    Arguments ppl(const Arguments& more) const {
        Arguments command = {"eval",   "ppl",         "-m",    small_model,
                             "--text", text_,         "--set", "device.exact_f32=true",
                             "--set",  "kv.codec=f32"};
        const std::pair<const char*, const char*> defaults[] = {
            {"--context", "64"}, {"--stride", "32"}, {"--windows", "4"}};
        for (const auto& [option, value] : defaults) {
            if (std::find(more.begin(), more.end(), option) == more.end())
                command.insert(command.end(), {option, value});
        }
        command.insert(command.end(), more.begin(), more.end());
        return command;
    }

    std::string text_;
};

// One plugin with several sets of options in one process too.
TEST_F(Eval, several_pipelines_give_what_each_gives_alone) {
    const std::string infinigen = config_file("infinigen.toml") + ",kv.infinigen.min_tokens=8,kv.infinigen.recent=";
    const Arguments all = {config_file("dense.toml"), infinigen + "8", infinigen + "16",
                           config_file("quest.toml") + ",kv.quest.share=0.5"};
    Arguments together;
    std::vector<double> alone;
    for (const std::string& pipeline : all) {
        alone.push_back(json(ppl({"-p", pipeline})).at("perplexity"));
        together.insert(together.end(), {"-p", pipeline});
    }
    const auto report = json(ppl(together));
    ASSERT_EQ(report.at("pipelines").size(), all.size());
    for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(report["pipelines"][i].at("perplexity"), alone[i]) << all[i];
        EXPECT_DOUBLE_EQ(report["pipelines"][i].at("relative_perplexity").get<double>(), alone[i] / alone[0]);
    }
    EXPECT_NE(alone[0], alone[1]);
    EXPECT_NE(alone[1], alone[2]);
    EXPECT_EQ(report["pipelines"][1].at("label"), "infinigen, min_tokens=8, recent=8");
    EXPECT_LT(report["pipelines"][1].at("kv").at("share_read"), 1);
}

// A stride of half the context gives each window's second half a prompt of the first; the same rows by hand.
TEST_F(Eval, stride_makes_what_it_leaves_of_the_context_a_prompt) {
    const auto strided = json(ppl({"--windows", "1", "--stride", "24"}));
    const auto by_hand = json(ppl({"--windows", "1", "--stride", "64", "--prompt", "40"}));
    EXPECT_EQ(strided.at("prompt"), 40);
    EXPECT_EQ(strided.at("tokens"), 23);
    EXPECT_EQ(strided.at("perplexity"), by_hand.at("perplexity"));
}

TEST_F(Eval, windows_side_by_side_give_what_each_gives_alone) {
    const auto alone = json(ppl({"--batch", "1"})), together = json(ppl({"--batch", "4"}));
    ASSERT_EQ(together.at("perplexity_by_window").size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
        const double expected = alone["perplexity_by_window"][i];
        EXPECT_NEAR(together["perplexity_by_window"][i].get<double>() / expected, 1, 1e-5);
    }
    EXPECT_EQ(together.at("kv").at("bytes_per_token"), alone.at("kv").at("bytes_per_token"));
}

// The mean of the losses at all places is the whole loss.
TEST_F(Eval, the_curve_holds_every_row_once) {
    const auto report = json(ppl({"--curve", "5"}));
    double loss = 0, tokens = 0;
    int64_t next = 32;
    for (const auto& place : report.at("curve")) {
        EXPECT_EQ(place.at("from"), next);
        next = place.at("to");
        tokens += place.at("tokens").get<double>();
        loss += place.at("tokens").get<double>() * std::log(place.at("perplexity").get<double>());
    }
    EXPECT_EQ(next, 63);
    EXPECT_EQ(tokens, report.at("tokens").get<double>());
    EXPECT_NEAR(std::exp(loss / tokens) / report.at("perplexity").get<double>(), 1, 1e-12);
}

// A row of K and V of 16 values: 2 * 16 * 4 bytes in f32, 2 * 16 + 4 in int8 with its two scales (ops.h).
TEST_F(Eval, sizes_are_relative_to_the_first_pipeline) {
    const auto report = json(ppl({"-p", config_file("dense.toml"), "-p", config_file("dense.toml") + ",kv.codec=i8"}));
    EXPECT_EQ(report["pipelines"][0]["kv"].at("relative_size"), 1);
    EXPECT_DOUBLE_EQ(report["pipelines"][1]["kv"].at("relative_size").get<double>(), 36.0 / 128);
    // Rows 32 to 62 of each window, 2 KV heads in 3 layers, 47 rows before them on average.
    EXPECT_DOUBLE_EQ(report["pipelines"][0]["kv"].at("bytes_per_token").get<double>(), 47.0 * 128 * 2 * 3);
}

// That a result was not computed again shows by a loss that the file has and the model never gave.
TEST_F(Eval, what_the_file_of_results_holds_is_not_computed_again) {
    const std::string file = path("results.jsonl");
    const Arguments two = {"--batch", "1", "--windows", "2", "--curve", "1", "--resume", file};
    const auto first = json(ppl(two));
    ASSERT_EQ(lines_of(file).size(), 2u);

    auto line = parse_json(lines_of(file)[0]);
    line["result"]["windows"][0]["loss"][0] = 31.0 * std::log(7.0);
    write("results.jsonl", line.dump() + "\n" + lines_of(file)[1] + "\n" + "{\"kvplane_eval\":1,\"key\":\"ha");
    Arguments three = two;
    three[3] = "3";
    const auto resumed = json(ppl(three));
    EXPECT_EQ(lines_of(file).size(), 3u) << "the half line is gone, the third window is there";
    EXPECT_NEAR(resumed["perplexity_by_window"][0].get<double>(), 7, 1e-9);
    EXPECT_EQ(resumed["perplexity_by_window"][1], first["perplexity_by_window"][1]);

    json(ppl({"--batch", "1", "--windows", "2", "--curve", "1", "--resume", file, "--set", "kv.codec=f16"}));
    EXPECT_EQ(lines_of(file).size(), 5u) << "another pipeline shares no result";
}

TEST_F(Eval, a_file_that_holds_no_results_is_refused_and_left_alone) {
    const std::string file = write("notes.txt", "my notes\nand more");
    expect_refusal(ppl({"--resume", file}), 2, {file + ":1", "--resume"});
    EXPECT_EQ(read_text(file), "my notes\nand more");
    expect_refusal(ppl({"--resume", write("half.txt", "my notes")}), 2, {"half.txt"});
    expect_refusal(ppl({"--resume", path("absent") + "/results"}), 2, {path("absent")});
}

TEST_F(Eval, an_interrupted_run_goes_on_where_it_was) {
    const std::string file = path("results.jsonl"), dense = config_file("dense.toml");
    Arguments arguments =
        ppl({"--context", "256", "--stride", "128", "--windows", "40", "--batch", "1", "--resume", file, "-p", dense});
    for (int i = 2; i <= 8; ++i) {
        arguments.push_back("-p");
        arguments.push_back(dense + ",memory.staging_pages=" + std::to_string(10 + i));
    }
    *std::find(arguments.begin(), arguments.end(), text_) = write("many.txt", foxes(200));
    const Arguments command = whole(arguments);
    Program program(command, settings());
    program.wait_for_errors("dense: done, 1 of 8");
    program.send(SIGINT);
    const ProgramResult result = program.wait();
    const size_t kept = lines_of(file).size();
    EXPECT_EQ(result.exit_code, 130);
    EXPECT_EQ(result.output, "");
    EXPECT_GE(kept, 40u);
    EXPECT_LT(kept, 320u);
    const ProgramResult again = run_program(command, settings());
    EXPECT_EQ(again.exit_code, 0);
    EXPECT_EQ(lines_of(file).size(), 320u);
    EXPECT_EQ(again.errors.find("dense: done"), std::string::npos) << "the first pipeline was known";
}

TEST_F(Eval, a_chart_shows_every_pipeline) {
    for (const char* name : {"chart.svg", "chart.html"}) {
        output(ppl({"-p", config_file("dense.toml"), "-p", config_file("dense.toml") + ",kv.codec=i8,label=a<b",
                    "--chart", path(name)}));
        const std::string chart = read_text(path(name));
        EXPECT_NE(chart.find("<svg "), std::string::npos);
        EXPECT_NE(chart.find("<title>dense: 100,"), std::string::npos);
        EXPECT_NE(chart.find("<title>a&lt;b: 28.1,"), std::string::npos);
        EXPECT_EQ(chart.find("a<b"), std::string::npos);
    }
    expect_refusal(ppl({"--chart", path("chart.png")}), 2, {"chart.png", ".svg"});
}

TEST_F(Eval, a_matrix_file_lists_pipelines_in_its_order) {
    const std::string matrix = write("matrix.toml",
                                     "[second-name]\nlabel = \"Dense\"\n"
                                     "[first]\nset = [\"kv.codec=i8\"]\nseries = \"codecs\"\n"
                                     "[a]\npipeline = \"own.toml\"\n");
    write("own.toml", "[kv]\nplugin = \"infinigen\"\n");
    const auto report = json(ppl({"--matrix", matrix}));
    ASSERT_EQ(report.at("pipelines").size(), 3u);
    EXPECT_EQ(report["pipelines"][0].at("label"), "Dense");
    EXPECT_EQ(report["pipelines"][1].at("label"), "first");
    EXPECT_EQ(report["pipelines"][1].at("series"), "codecs");
    EXPECT_EQ(report["pipelines"][1].at("overrides")[0], "kv.codec=i8");
    EXPECT_EQ(report["pipelines"][2].at("strategy"), "infinigen");
}

TEST_F(Eval, a_matrix_that_makes_no_sense_is_refused_before_anything_runs) {
    const auto refused = [&](const std::string& text, int exit_code, const Arguments& parts) {
        expect_refusal(ppl({"--matrix", write("matrix.toml", text)}), exit_code, parts);
    };
    refused("label = \"x\"\n", 3, {"matrix.toml:1", "[NAME]"});
    refused("[a]\npipelin = \"x\"\n", 3, {"matrix.toml:2", "pipelin"});
    refused("[a]\nset = \"kv.codec=i8\"\n", 3, {"matrix.toml:2", "list"});
    refused("[a]\nset = [\"kv.dtype\"]\n", 3, {"matrix.toml:2", "KEY=VALUE"});
    refused("", 3, {"names no pipeline"});
    refused("[a]\n[b]\nset = [\"kv.dtpe=i8\"]\n", 3, {"pipeline \"b\"", "kv.dtpe"});
    refused("[a]\n[b]\nlabel = \"a\"\n", 2, {"\"a\"", "label"});
    expect_refusal(ppl({"-p", config_file("dense.toml") + ",oops"}), 2, {"oops", "KEY=VALUE"});
    expect_refusal(ppl({"--stride", "65"}), 2, {"--stride 65"});
}

}  // namespace kvplane::test
