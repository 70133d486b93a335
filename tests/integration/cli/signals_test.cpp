// Ends that come from outside: Ctrl-C, and a reader of the output that goes away.
#include "command_line.h"

namespace kvplane::test {

class Signals : public CommandLine {
protected:
    // Goes on for minutes, and streams from the start.
    Arguments long_run(const Arguments& more = {}) const {
        Arguments all = whole({"run", "-m", small_model, "--prompt", "The cat sat", "--ignore-end", "-n", "250000",
                               "--set", "model.context=300000", "-q"});
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
};

TEST_F(Signals, an_interrupt_ends_the_run_at_the_next_token_with_its_statistics) {
    for (const auto& [signal, code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
        Program program(long_run(), settings());
        program.wait_for_output();
        program.send(signal);
        const ProgramResult result = program.wait();
        EXPECT_EQ(result.exit_code, code);
        EXPECT_TRUE(result.errors.starts_with("[11 prompt tokens in ")) << result.errors;
        EXPECT_TRUE(result.output.ends_with("\n"));
    }
}

TEST_F(Signals, an_interrupt_during_a_long_prompt_is_obeyed_as_well) {
    const std::string ids = "[" + [] {
        std::string list;
        for (int i = 0; i < 200'000; ++i) list += "66,";
        return list + "66]";
    }();
    Program program(whole({"run", "-m", small_model, "--prompt-ids-file", write("ids.json", ids), "--json", "-v",
                           "--set", "model.context=300000"}),
                    settings());
    program.wait_for_errors("loaded ");
    program.send(SIGINT);
    const ProgramResult result = program.wait();
    EXPECT_EQ(result.exit_code, 130);
    EXPECT_EQ(parse_json(result.output).at("finish_reason"), "cancelled");
    EXPECT_NE(result.errors.find("[200001 prompt tokens in "), std::string::npos) << result.errors;
}

TEST_F(Signals, a_second_one_ends_the_program_on_the_spot) {
    Program program(long_run(), settings());
    program.wait_for_output();
    // Both wait for the program when it wakes up, so that it cannot end by the first alone.
    program.send(SIGSTOP);
    program.send(SIGINT);
    program.send(SIGTERM);
    program.send(SIGCONT);
    const ProgramResult result = program.wait();
    EXPECT_TRUE(result.exit_code == 130 || result.exit_code == 143) << result.exit_code;
    EXPECT_EQ(result.errors, "");
}

TEST_F(Signals, a_reader_that_goes_away_ends_it_quietly) {
    Program program(long_run(), settings());
    program.wait_for_output();
    program.close_output();
    const ProgramResult result = program.wait();
    EXPECT_EQ(result.signal, SIGPIPE) << result.exit_code;
    EXPECT_EQ(result.errors, "");
}

}  // namespace kvplane::test
