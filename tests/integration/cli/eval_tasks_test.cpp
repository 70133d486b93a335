// kvplane eval tasks: likelihoods as the reference has them, accuracy, shared beginnings, resuming, bad files.
#include <cmath>
#include <fstream>
#include <map>

#include "command_line.h"

namespace kvplane::test {

namespace {

using Tokens = std::vector<int32_t>;

const std::string golden_folder = std::string(KVPLANE_GOLDEN_DIR) + "/tasks";

// "log_likelihoods" of each line of the task's file.
std::map<int, std::vector<double>> likelihoods(const std::string& file) {
    std::ifstream in(file);
    EXPECT_TRUE(in) << file;
    std::map<int, std::vector<double>> found;
    for (std::string line; std::getline(in, line);) {
        const auto json = parse_json(line);
        found[json.at("line")] = json.at("log_likelihoods").get<std::vector<double>>();
    }
    return found;
}

size_t lines_in(const std::string& file) {
    std::ifstream in(file);
    size_t n = 0;
    for (std::string line; std::getline(in, line);) ++n;
    return n;
}

}  // namespace

class EvalTasks : public CommandLine {
protected:
    Arguments tasks(const Arguments& more, const std::string& folder = golden_folder,
                    const char* name = "small") const {
        Arguments command = {
            "eval",  "tasks",       "-m", small_model, "--data", "--task", name, "--set", "device.exact_f32=true",
            "--set", "kv.codec=f32"};
        command.insert(command.begin() + 5, folder);
        command.insert(command.end(), more.begin(), more.end());
        return command;
    }

    // Of the small task, in order.
    std::map<int, std::vector<double>> sums(Arguments more) const {
        more.insert(more.end(), {"--samples", path("samples.jsonl")});
        output(tasks(more));
        return likelihoods(path("samples.jsonl"));
    }

    void expect_near(const std::map<int, std::vector<double>>& found, const std::map<int, std::vector<double>>& wanted,
                     double tolerance) const {
        ASSERT_EQ(found.size(), wanted.size());
        for (const auto& [line, expected] : wanted) {
            ASSERT_EQ(found.at(line).size(), expected.size()) << "line " << line;
            for (size_t i = 0; i < expected.size(); ++i) {
                EXPECT_NEAR(found.at(line)[i], expected[i], tolerance) << "line " << line << ", choice " << i;
            }
        }
    }

    void expect_bad_item(const std::string& text, const Arguments& parts) const {
        write("bad.jsonl", text);
        expect_refusal(tasks({}, folder(), "bad"), 2, parts);
    }
    std::string folder() const { return std::filesystem::path(path("x")).parent_path().string(); }
};

// Expected values: tests/reference/task_likelihoods.py, F32 PyTorch.
TEST_F(EvalTasks, likelihoods_agree_with_pytorch) {
    for (const char* shots : {"0", "2"}) {
        const auto expected = likelihoods(golden_folder + "/small-" + shots + "-shots.jsonl");
        expect_near(sums({"--shots", shots}), expected, 2e-3);
        expect_near(sums({"--shots", shots, "--batch", "1"}), expected, 2e-3);
        expect_near(sums({"--shots", shots, "--decode-last", "7"}), expected, 2e-3);
    }
}

// By hand from the reference's sums and the choices' bytes.
TEST_F(EvalTasks, accuracy_is_counted_from_the_sums) {
    const auto report = json(tasks({"--shots", "2"}));
    EXPECT_EQ(report.at("items"), 6);
    int64_t hits = 0, normed_hits = 0;
    const std::map<int, std::vector<double>> sums = likelihoods(golden_folder + "/small-2-shots.jsonl");
    std::ifstream in(golden_folder + "/small.jsonl");
    int line = 0;
    for (std::string text; std::getline(in, text);) {
        ++line;
        if (!sums.contains(line)) continue;
        const auto item = parse_json(text);
        size_t best = 0, best_normed = 0;
        const auto& values = sums.at(line);
        const auto normed = [&](size_t i) {
            return values[i] / static_cast<double>(item["choices"][i].get<std::string>().size());
        };
        for (size_t i = 1; i < values.size(); ++i) {
            if (values[i] > values[best]) best = i;
            if (normed(i) > normed(best_normed)) best_normed = i;
        }
        hits += best == item["gold"].get<size_t>();
        normed_hits += best_normed == item["gold"].get<size_t>();
    }
    ASSERT_NE(hits, normed_hits) << "the task would not tell the two apart";
    EXPECT_EQ(report.at("acc"), static_cast<double>(hits) / 6);
    EXPECT_EQ(report.at("acc_norm"), static_cast<double>(normed_hits) / 6);
    const double p = static_cast<double>(hits) / 6;
    EXPECT_DOUBLE_EQ(report.at("stderr").get<double>(), std::sqrt(p * (1 - p) / 5));
}

TEST_F(EvalTasks, a_limit_counts_items_after_the_shots) {
    const auto all = sums({"--shots", "2"}), few = sums({"--shots", "2", "--limit", "3"});
    ASSERT_EQ(few.size(), 3u);
    EXPECT_EQ(few.begin()->first, 3);
    for (const auto& [line, values] : few) expect_near({{line, values}}, {{line, all.at(line)}}, 1e-4);
}

// What `run` continues a prompt with, where that text has the same tokens again.
TEST_F(EvalTasks, a_right_choice_is_exact_where_it_is_what_greedy_decoding_gives) {
    const auto tokens = [&](const std::string& text) {
        return json({"model", "tokenize", small_model, "--file", write("text", text)}).at("tokens").get<Tokens>();
    };
    size_t found = 0;
    for (const std::string prompt :
         {"The cat sat", "Once", "a b c d", "Why not", "Then he went", "12 34", "zebra", "Q"}) {
        const auto run = json({"run", "-m", small_model, "--prompt", prompt, "-n", "1", "--set",
                               "device.exact_f32=true", "--set", "kv.codec=f32", "--ignore-end"});
        const std::string text = run.at("text");
        Tokens whole = tokens(prompt);
        const Tokens more = run.at("tokens");
        whole.insert(whole.end(), more.begin(), more.end());
        const bool is_text = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore) ==
                             nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        if (!is_text || text.empty() || tokens(prompt + text) != whole) continue;
        ++found;
        const nlohmann::json item = {{"context", prompt}, {"choices", {text, " zq"}}, {"gold", 0}};
        nlohmann::json other = item;
        other["gold"] = 1;
        write("greedy.jsonl", item.dump() + "\n" + other.dump() + "\n");
        EXPECT_EQ(json(tasks({"--limit", "1"}, folder(), "greedy")).at("exact"), 1) << item;
        EXPECT_EQ(json(tasks({}, folder(), "greedy")).at("exact"), 0.5) << item;
    }
    EXPECT_GT(found, 0u);
}

// Three pages of 4 tokens a text and layer find room for few texts at once.
TEST_F(EvalTasks, little_room_changes_nothing) {
    const auto expected = likelihoods(golden_folder + "/small-2-shots.jsonl");
    const Arguments tight = {"--shots", "2", "--set", "memory.page_tokens=4", "--set", "tiers.host.kv_bytes=0"};
    Arguments more = tight;
    more.insert(more.end(), {"--set", "tiers.device.kv_bytes=300KiB"});
    expect_near(sums(more), expected, 2e-3);
    more.back() = "tiers.device.kv_bytes=40KiB";
    expect_refusal(tasks(more), 6, {"kv_bytes"});
}

TEST_F(EvalTasks, several_tasks_and_pipelines_stand_in_one_report_and_resume) {
    const std::string file = path("results.jsonl");
    std::filesystem::copy_file(golden_folder + "/small.jsonl", path("other.jsonl"));
    std::filesystem::copy_file(golden_folder + "/small.jsonl", path("small.jsonl"));
    const Arguments command =
        tasks({"-p", config_file("dense.toml"), "-p", config_file("infinigen.toml"), "--task", "other", "--batch", "4",
               "--resume", file, "--chart", path("chart.svg"), "--shots", "1"},
              folder());
    const auto report = json(command);
    ASSERT_EQ(report.at("pipelines").size(), 2u);
    const auto& dense = report["pipelines"][0];
    EXPECT_EQ(dense.at("tasks").at("small"), dense.at("tasks").at("other"));
    EXPECT_EQ(dense.at("mean_acc"), dense["tasks"]["small"].at("acc"));
    EXPECT_EQ(lines_in(file), 4u) << "two units a pipeline; the second task has the first one's results";
    EXPECT_GT(std::filesystem::file_size(path("chart.svg")), 1000u);
    auto again = json(command), first = report;
    EXPECT_EQ(lines_in(file), 4u);
    EXPECT_EQ(again, first);
}

TEST_F(EvalTasks, bad_items_are_named_with_file_and_line) {
    const std::string good = R"({"context": "a", "choices": [" b", " c"], "gold": 0})"
                             "\n";
    expect_bad_item(good + "{\"context\"\n", {"bad.jsonl:2", "JSON"});
    expect_bad_item(good + "[1]\n", {"bad.jsonl:2", "object"});
    expect_bad_item(good + "\xff\xfe{}\n", {"bad.jsonl:2", "UTF-8"});
    expect_bad_item(R"({"context": "a", "choices": [], "gold": 0})", {"bad.jsonl:1", "choices"});
    expect_bad_item(R"({"context": "a", "choices": ["", "b"], "gold": 0})", {"bad.jsonl:1", "empty"});
    expect_bad_item(R"({"context": "a", "choices": ["b", 7], "gold": 0})", {"bad.jsonl:1", "choices"});
    expect_bad_item(R"({"context": 5, "choices": ["b"], "gold": 0})", {"bad.jsonl:1", "context"});
    expect_bad_item(R"({"choices": ["b"], "gold": 0})", {"bad.jsonl:1", "context"});
    expect_bad_item(R"({"contexts": ["a"], "choices": ["b", "c"], "gold": 0})", {"bad.jsonl:1", "each choice"});
    for (const char* gold : {"2", "-1", "0.5", "\"0\"", "null", "99999999999999999999"}) {
        expect_bad_item(R"({"context": "a", "choices": ["b", "c"], "gold": )" + std::string(gold) + "}",
                        {"bad.jsonl:1", "gold"});
    }
    expect_bad_item("\n\n", {"bad.jsonl", "no item"});
}

TEST_F(EvalTasks, what_cannot_be_asked_for_is_refused) {
    expect_refusal(tasks({}, folder(), "absent"), 2, {"absent.jsonl"});
    expect_refusal(tasks({}, folder(), "../small"), 2, {"../small"});
    expect_refusal(tasks({"--shots", "8"}), 2, {"--shots 8", "8 items"});
    expect_refusal(tasks({"--chart", "x.png"}), 2, {"x.png"});
}

}  // namespace kvplane::test
