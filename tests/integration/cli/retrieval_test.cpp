// kvplane eval make-retrieval: what its tasks look like, and that they can be scored; kvplane eval join.
#include <fstream>

#include "command_line.h"

namespace kvplane::test {

class Retrieval : public CommandLine {
protected:
    void SetUp() override {
        std::string text;
        for (int i = 0; i < 200; ++i) text += "The quick brown fox " + std::to_string(i) + " jumps over the lazy dog. ";
        text_ = write("foxes.txt", text);
    }

    std::vector<nlohmann::json> items(const std::string& file) const {
        std::ifstream in(file);
        std::vector<nlohmann::json> found;
        for (std::string line; std::getline(in, line);) found.push_back(parse_json(line));
        return found;
    }

    Arguments make(const std::string& folder, const char* seed = "1") const {
        return {"eval", "make-retrieval", "-m",      small_model, "--text", text_,    "-o",
                folder, "--tokens",       "300,500", "--depths",  "5",      "--seed", seed};
    }

    std::string text_;
};

// The fact stands once in the context, deeper from item to item, and the right choice is what it says.
TEST_F(Retrieval, a_needle_stands_at_every_depth) {
    EXPECT_EQ(output(make(path("made"))), "needle-300\nkeys-300\nneedle-500\nkeys-500\n");
    const auto found = items(path("made") + "/needle-300.jsonl");
    ASSERT_EQ(found.size(), 5u);
    size_t before = 0;
    for (size_t depth = 0; depth < 5; ++depth) {
        const std::string context = found[depth]["context"];
        const std::string gold = found[depth]["choices"][found[depth]["gold"].get<size_t>()];
        EXPECT_EQ(gold.size(), 6u);
        const size_t fact = context.find(gold + ".");
        ASSERT_NE(fact, std::string::npos);
        EXPECT_EQ(context.find(gold, fact + 1), std::string::npos) << "the answer stands once";
        EXPECT_TRUE(depth == 0 || fact > before) << "deeper than the one before";
        before = fact;
        EXPECT_NE(context.find("What is the secret code of"), std::string::npos);
        EXPECT_EQ(found[depth]["choices"].size(), 4u);
    }
}

TEST_F(Retrieval, keys_ask_for_one_of_many_pairs) {
    output(make(path("made")));
    const auto found = items(path("made") + "/keys-500.jsonl");
    ASSERT_EQ(found.size(), 5u);
    size_t before = 0;
    for (const auto& item : found) {
        const std::string context = item["context"];
        const std::string asked = context.substr(context.rfind('\n') + 1);  // "NAME:"
        const std::string gold = item["choices"][item["gold"].get<size_t>()];
        const size_t fact = context.find(asked + gold + "\n");
        ASSERT_NE(fact, std::string::npos) << item;
        EXPECT_GE(fact, before);
        before = fact;
        for (const auto& choice : item["choices"]) {
            EXPECT_NE(context.find(choice.get<std::string>() + "\n"), std::string::npos) << "a code of another name";
        }
    }
}

TEST_F(Retrieval, texts_have_the_wanted_length_and_follow_the_seed) {
    output(make(path("made")));
    output(make(path("again")));
    output(make(path("other"), "2"));
    for (const char* name : {"/needle-300.jsonl", "/keys-300.jsonl"}) {
        const auto made = items(path("made") + name);
        EXPECT_EQ(made, items(path("again") + name));
        EXPECT_NE(made, items(path("other") + name));
        for (const auto& item : made) {
            const auto ids =
                json({"model", "tokenize", small_model, "--file", write("text", item["context"].get<std::string>())})
                    .at("tokens");
            EXPECT_NEAR(static_cast<double>(ids.size()), 300, 45);
        }
    }
    expect_refusal(
        {"eval", "make-retrieval", "-m", small_model, "--text", text_, "-o", path("x"), "--tokens", "100000"}, 2,
        {text_, "--tokens"});
}

TEST_F(Retrieval, tasks_are_scored_and_joined_with_perplexity) {
    output(make(path("made")));
    const auto report = [&](const std::string& name, Arguments command) {
        command.insert(command.end(),
                       {"-p", config_file("dense.toml"), "-p", config_file("dense.toml") + ",kv.codec=i8"});
        write(name, json(command).dump());
    };
    report("tasks.json", {"eval", "tasks", "-m", small_model, "--data", path("made"), "--task", "needle-300,keys-300",
                          "--decode-last", "16"});
    report("ppl.json",
           {"eval", "ppl", "-m", small_model, "--text", text_, "--context", "64", "--stride", "32", "--windows", "2"});
    const std::string table =
        output({"eval", "join", path("ppl.json"), path("tasks.json"), "--chart", path("all.svg")});
    EXPECT_NE(table.find("| pipeline "), std::string::npos);
    for (const char* part :
         {"perplexity at 64", "mean acc, 0 shots", "needle-300 acc", "keys-300 acc", "| dense, codec=i8 "}) {
        EXPECT_NE(table.find(part), std::string::npos) << part << " in\n" << table;
    }
    EXPECT_GT(std::filesystem::file_size(path("all.svg")), 2000u);
    expect_refusal({"eval", "join", write("none.json", "{}")}, 2, {"none.json"});
    expect_refusal({"eval", "join", write("odd.json", R"({"pipelines": [{"label": "a", "perplexity": 1}]})")}, 2,
                   {"report"});
}

}  // namespace kvplane::test
