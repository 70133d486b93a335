// The other commands: eval, model, calibrate, version, and what happens to ones that do not exist.
#include "command_line.h"

#include "support/golden.h"

namespace kvplane::test {

namespace {

std::string foxes(int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += "The quick brown fox jumps over the lazy dog. ";
    return text;
}

}  // namespace

class Commands : public CommandLine {
protected:
    std::vector<int32_t> tokens_of(const Arguments& command) const { return json(command).at("tokens"); }
};

// Expected values: tests/reference/llama_torch.py on the ids of gguf_tokenizer.py, windows of 64.
TEST_F(Commands, eval_ppl_agrees_with_pytorch) {
    const std::string text = write("foxes.txt", foxes(6));
    const auto evaluate = [&](const char* prompt) {
        return json({"eval", "ppl", "-m", small_model, "--text", text, "--context", "64", "--prompt", prompt,
                     "--windows", "2", "--set", "device.exact_f32=true", "--set", "kv.codec=f32"});
    };
    const auto all_rows = evaluate("0");
    EXPECT_EQ(all_rows.at("tokens"), 126);
    EXPECT_NEAR(all_rows.at("perplexity").get<double>() / 19342.6011, 1, 1e-5);
    const auto decoded = evaluate("32");
    EXPECT_EQ(decoded.at("tokens"), 62);
    EXPECT_NEAR(decoded.at("perplexity").get<double>() / 15199.9204, 1, 1e-5);
    EXPECT_EQ(decoded.at("kv").at("share_read"), 1);
}

TEST_F(Commands, eval_ppl_refuses_what_makes_no_sense) {
    const std::string text = write("foxes.txt", foxes(1));
    expect_refusal({"eval", "ppl", "-m", small_model, "--text", text, "--context", "64"}, 2,
                   {text, "41 tokens", "--context"});
    expect_refusal({"eval", "ppl", "-m", small_model, "--text", text, "--context", "16", "--prompt", "15"}, 2,
                   {"--prompt 15"});
    expect_refusal({"eval", "ppl", "-m", small_model, "--text", path("absent")}, 2, {path("absent")});
}

// The shape that tests/reference/make_tiny_models.py gives this model.
TEST_F(Commands, model_info_tells_the_shape) {
    const auto report = json({"model", "info", small_model});
    EXPECT_EQ(report.at("architecture"), "llama");
    EXPECT_EQ(report.at("layers"), 3);
    EXPECT_EQ(report.at("heads"), 4);
    EXPECT_EQ(report.at("kv_heads"), 2);
    EXPECT_EQ(report.at("head_size"), 16);
    EXPECT_EQ(report.at("vocabulary"), 272);
    EXPECT_EQ(report.at("kv_bytes_per_token"), 2 * 3 * 2 * 16 * 2);
    EXPECT_NE(output({"model", "info", small_model}).find("head_size           16\n"), std::string::npos);
}

// The bytes of a token in that model are its id less 3; "he" and the like are merges.
TEST_F(Commands, model_tokenize_gives_the_ids_of_a_text) {
    EXPECT_EQ(tokens_of({"model", "tokenize", small_model, "--file", write("cat.txt", "The cat sat")}),
              (std::vector<int32_t>{87, 107, 104, 35, 102, 100, 119, 35, 118, 100, 119}));
}

TEST_F(Commands, calibrate_makes_a_file_that_a_run_can_use) {
    const std::string aux = path("skew.aux"), infinigen = config_file("infinigen.toml");
    output({"calibrate", "kv", "-p", infinigen, "-m", small_model, "--text", write("foxes.txt", foxes(6)), "-o", aux});
    const Arguments skewed = {"run",      "-p",          infinigen, "--set", "kv.infinigen.skew=on", "-m", small_model,
                              "--prompt", "The cat sat", "-n",      "16"};
    Arguments with_aux = skewed;
    with_aux.insert(with_aux.end(), {"--set", "kv.aux=" + aux});
    const auto report = json(with_aux);
    EXPECT_NE(report.at("strategy_settings").get<std::string>().find("skew on"), std::string::npos) << report;

    const auto refused = [&](const std::string& bytes, const std::string& reason) {
        write("skew.aux", bytes);
        expect_refusal(with_aux, 3, {aux, reason});
    };
    const std::string bytes = read_file(aux);
    refused(bytes.substr(0, bytes.size() - 1), "");
    refused("no aux file", "");
    std::string damaged = bytes;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    refused(damaged, "");
    write("skew.aux", bytes);
    Arguments other_model = with_aux;
    other_model[6] = golden_model("tiny-mha-f32");
    expect_refusal(other_model, 3, {aux, "model"});
    expect_refusal({"calibrate", "kv", "-m", small_model, "--text", path("foxes.txt"), "-o", path("x")}, 2,
                   {"dense", "no calibration"});
}

TEST_F(Commands, version_names_program_and_abi) {
    EXPECT_EQ(output({"--version"}), "kvplane " KVPLANE_VERSION " (plugin ABI 1.0, draft)\n");
}

TEST_F(Commands, help_goes_to_standard_output) {
    EXPECT_NE(output({"--help"}).find("run"), std::string::npos);
    EXPECT_NE(output({"run", "--help"}).find("--prompt-file"), std::string::npos);
    EXPECT_NE(output({"exit-codes"}).find("6 "), std::string::npos);
}

TEST_F(Commands, that_do_not_exist_are_refused_with_code_2) {
    expect_refusal({"rnu"}, 2, {"no command \"rnu\"", "did you mean \"run\"?"});
    expect_refusal({"config", "explian"}, 2, {"no command \"explian\"", "did you mean \"explain\"?"});
    expect_refusal({"calibrate"}, 2, {"ubcommand"});
    expect_refusal({}, 2, {"ubcommand"});
}

}  // namespace kvplane::test
