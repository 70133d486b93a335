// kvplane run: what it prints where, and that what it prints is right.
#include "command_line.h"

#include "support/golden.h"

namespace kvplane::test {

namespace {

const std::string replacement = "\xef\xbf\xbd";  // U+FFFD, for bytes that are no text

// Greedy, by tests/reference/llama_torch.py and gguf_tokenizer.py from tiny-gqa-f32.gguf; of each step the two best
// logits are at least 0.07 apart.
struct Continuation {
    std::string prompt;
    std::vector<int32_t> tokens;
    std::string text;
};
const Continuation cat = {"The cat sat",
                          {148, 270, 86, 86, 86, 86, 86, 86, 86, 86, 86, 86, 86, 86, 86, 86},
                          replacement + "ingSSSSSSSSSSSSSS"};
const Continuation hello = {
    "Hello, world",
    {109, 257, 227, 64, 269, 269, 269, 269, 269, 269, 269, 269, 13, 258, 58, 25},
    "j" + replacement + replacement + "= and and and and and and and and\n" + replacement + "7\x16"};

Arguments exact_run(const std::string& prompt, Arguments more = {}) {
    Arguments all = {"run", "--model", small_model, "--prompt", prompt, "-n", "16", "--set", "device.exact_f32=true"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

const Arguments infinigen_run = {
    "run", "-p", config_file("infinigen.toml"), "--model", small_model, "--prompt", "The cat sat", "-n", "32"};

}  // namespace

class Run : public CommandLine {};

TEST_F(Run, continues_a_prompt_as_pytorch_does) {
    for (const Continuation& expected : {cat, hello}) {
        const auto report = json(exact_run(expected.prompt));
        EXPECT_EQ(report.at("tokens").get<std::vector<int32_t>>(), expected.tokens);
        EXPECT_EQ(report.at("text"), expected.text);
        EXPECT_EQ(report.at("generated_tokens"), expected.tokens.size());
        EXPECT_EQ(report.at("finish_reason"), "length");
    }
}

TEST_F(Run, finds_the_likeliest_token_after_prompts_of_given_ids) {
    const auto golden = read_golden("tiny/tiny-gqa-f32.json");
    const auto ids = golden.at("ids").get<std::vector<int32_t>>();
    std::ifstream logits(std::string(KVPLANE_GOLDEN_DIR) + "/tiny/tiny-gqa-f32.f32", std::ios::binary);
    for (const size_t row : golden.at("rows").get<std::vector<size_t>>()) {
        std::vector<float> values(golden.at("vocabulary").get<size_t>());
        logits.read(reinterpret_cast<char*>(values.data()),
                    static_cast<std::streamsize>(values.size() * sizeof(float)));
        ASSERT_TRUE(logits);
        const auto best = std::max_element(values.begin(), values.end()) - values.begin();
        const std::vector<int32_t> prompt(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(row) + 1);
        const auto report =
            json({"run", "--model", small_model, "--prompt-ids-file", write("ids.json", nlohmann::json(prompt).dump()),
                  "-n", "1", "--ignore-end", "--set", "device.exact_f32=true"});
        EXPECT_EQ(report.at("prompt_tokens"), row + 1);
        EXPECT_EQ(report.at("tokens").at(0), best) << "after row " << row;
    }
}

TEST_F(Run, reports_what_a_run_did_as_json) {
    const auto report = json(infinigen_run);
    for (const char* key : {"prefill_tokens_per_second", "decode_tokens_per_second"}) {
        EXPECT_GT(report.at(key).get<double>(), 0) << key;
    }
    EXPECT_EQ(report.at("prompt_tokens"), 11);
    EXPECT_EQ(report.at("generated_tokens"), 32);
    EXPECT_TRUE(report.at("text").is_string());
    EXPECT_TRUE(report.at("finish_reason").is_string());
    EXPECT_EQ(report.at("strategy"), "infinigen");
    for (const char* share : {"share_read", "share_moved"}) {
        EXPECT_GE(report.at("kv").at(share).get<double>(), 0) << share;
        EXPECT_LE(report.at("kv").at(share).get<double>(), 1) << share;
    }
    for (const char* tier : {"device", "host"}) {
        EXPECT_GT(report.at("tiers").at(tier).at("budget_bytes").get<uint64_t>(), 0u) << tier;
        EXPECT_LE(report.at("tiers").at(tier).at("peak_bytes").get<uint64_t>(),
                  report.at("tiers").at(tier).at("budget_bytes").get<uint64_t>());
    }
}

TEST_F(Run, prints_the_text_alone_on_standard_output_and_statistics_on_standard_error) {
    const ProgramResult plain = run(infinigen_run);
    EXPECT_EQ(plain.exit_code, 0);
    EXPECT_EQ(plain.output, json(infinigen_run).at("text").get<std::string>() + "\n");
    EXPECT_TRUE(plain.errors.starts_with("[11 prompt tokens in ")) << plain.errors;
    EXPECT_EQ(std::count(plain.errors.begin(), plain.errors.end(), '\n'), 1) << plain.errors;
    for (const char* part : {"32 new in", "tok/s", "KV read", "moved", "device ", "host ", "infinigen: "}) {
        EXPECT_NE(plain.errors.find(part), std::string::npos) << part << " in " << plain.errors;
    }
}

TEST_F(Run, takes_the_prompt_from_a_file) {
    Arguments from_file = exact_run("");
    from_file[3] = "--prompt-file";
    from_file[4] = write("a prompt.txt", cat.prompt);
    EXPECT_EQ(output(from_file), cat.text + "\n");
}

TEST_F(Run, gives_the_same_text_for_the_same_seed_and_another_for_another) {
    const auto with_seed = [&](const char* seed) {
        return output(exact_run("The cat sat", {"--temperature", "1.5", "--seed", seed}));
    };
    const std::string first = with_seed("7");
    EXPECT_EQ(with_seed("7"), first);
    EXPECT_NE(with_seed("8"), first);
    EXPECT_EQ(output(exact_run("The cat sat", {"--temperature", "0", "--seed", "7"})), cat.text + "\n");
    // Cold enough to be greedy, yet not zero.
    EXPECT_EQ(output(exact_run("The cat sat", {"--temperature", "0.0000001"})), cat.text + "\n");
}

TEST_F(Run, lets_a_later_option_win_over_the_pipeline) {
    EXPECT_EQ(json({"run", "-p", config_file("infinigen.toml"), "--set", "kv.plugin=dense", "-m", small_model,
                    "--prompt", "x", "-n", "2"})
                  .at("strategy"),
              "dense");
    EXPECT_EQ(json({"run", "-p", config_file("infinigen.toml"), "-m", small_model, "--prompt", "x", "-n", "2"},
                   {"KVPLANE_KV_PLUGIN=dense"})
                  .at("strategy"),
              "dense");
}

TEST_F(Run, reads_fewer_rows_when_alpha_falls) {
    const auto share_read = [&](const std::string& alpha) {
        Arguments arguments = infinigen_run;
        for (const char* setting : {"min_tokens=1", "min_share=0", "sinks=1", "recent=1", "cap=1"}) {
            arguments.insert(arguments.end(), {"--set", std::string("kv.infinigen.") + setting});
        }
        arguments.insert(arguments.end(), {"--set", "kv.infinigen.alpha=" + alpha});
        return json(arguments).at("kv").at("share_read").get<double>();
    };
    const double few = share_read("0"), some = share_read("2"), all = share_read("1000000000");
    EXPECT_LT(few, some);
    EXPECT_LT(some, 1);
    EXPECT_EQ(all, 1);
}

TEST_F(Run, stays_within_a_budget_of_the_device_tier) {
    std::string prompt;
    for (int i = 0; i < 40; ++i) prompt += "number " + std::to_string(i) + "; ";
    const Arguments arguments = {"run", "-p",    config_file("dense.toml"), "-m", small_model, "--prompt", prompt, "-n",
                                 "16",  "--set", "device.exact_f32=true"};
    Arguments small = arguments;
    for (const char* setting : {"tiers.device.kv_bytes=96KiB", "tiers.host.access=copy"}) {
        small.insert(small.end(), {"--set", setting});
    }
    const auto report = json(small);
    EXPECT_EQ(report.at("tiers").at("device").at("budget_bytes"), 96 * 1024);
    EXPECT_LE(report.at("tiers").at("device").at("peak_bytes"), 96 * 1024);
    EXPECT_GT(report.at("tiers").at("host").at("peak_bytes"), 0);
    EXPECT_GT(report.at("kv").at("share_moved").get<double>(), 0);
    EXPECT_EQ(report.at("text"), json(arguments).at("text"));
}

TEST_F(Run, takes_a_model_whose_path_has_odd_characters) {
    const std::string odd = write("a \"model\" = #1'.gguf", read_file(small_model));
    EXPECT_EQ(output({"run", "-m", odd, "--prompt", cat.prompt, "-n", "16", "--set", "device.exact_f32=true"}),
              cat.text + "\n");
}

TEST_F(Run, refuses_a_wrong_request_with_code_2) {
    const auto refused = [&](Arguments more, const Arguments& parts) {
        more.insert(more.begin(), {"run", "-m", small_model});
        expect_refusal(more, 2, parts);
    };
    refused({}, {"--prompt"});
    refused({"--prompt", "a", "--prompt-file", "b"}, {"--prompt"});
    refused({"--prompt", ""}, {"the prompt is empty"});
    refused({"--prompt-file", path("absent.txt")}, {"absent.txt", "cannot be read"});
    refused({"--prompt-ids-file", write("bad.json", "[1, \"two\"]")}, {"bad.json", "JSON array of token ids"});
    refused({"--prompt-ids-file", write("none.json", "[]")}, {"the prompt is empty"});
    refused({"--prompt-ids-file", write("far.json", "[5, 272]")}, {"token 272", "vocabulary of 272"});
    refused({"--prompt", "x", "-n", "0"}, {"--max-tokens"});
    refused({"--prompt", "x", "--temperature", "-1"}, {"--temperature"});
    refused({"--prompt", "x", "--no-such-option"}, {"--no-such-option"});
    refused({"--prompt", std::string(513, '1')}, {"the prompt has 513 tokens", "512", "model.context"});
    expect_refusal({"run", "--prompt", "x"}, 2, {"no model", "--model"});
}

TEST_F(Run, refuses_budgets_that_hold_no_page_with_code_6) {
    for (const std::string tier : {"device", "host"}) {
        expect_refusal({"run", "-m", small_model, "--prompt", "x", "--set", "tiers." + tier + ".kv_bytes=4KiB"}, 6,
                       {"tiers." + tier + ".kv_bytes", "4096 bytes", "page", "memory.page_tokens"});
    }
}

TEST_F(Run, says_so_when_its_output_cannot_be_written) {
    ProgramSettings full = settings();
    full.output_file = "/dev/full";
    const ProgramResult result = run_program(whole(exact_run("x")), full);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.errors.find("cannot write to standard output"), std::string::npos) << result.errors;
}

}  // namespace kvplane::test
