// The program as built, run in an empty folder that must still be empty when the test is over; files that a test makes
// stand elsewhere.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/gguf_builder.h"
#include "support/json_text.h"
#include "support/run_program.h"
#include "support/temp_folder.h"

namespace kvplane::test {

using Arguments = std::vector<std::string>;

inline std::string golden_model(const std::string& name) {
    return std::string(KVPLANE_GOLDEN_DIR) + "/tiny/" + name + ".gguf";
}

inline const std::string small_model = golden_model("tiny-gqa-f32");

inline std::string config_file(const std::string& name) {
    return std::string(KVPLANE_SOURCE_DIR) + "/configs/" + name;
}

class CommandLine : public testing::Test {
protected:
    // "run ARGUMENTS" and so on; the program's name goes in front.
    Arguments whole(Arguments arguments) const {
        arguments.insert(arguments.begin(), KVPLANE_PROGRAM);
        return arguments;
    }

    ProgramSettings settings(const Arguments& environment = {}) const { return {here_.path(), environment, ""}; }

    ProgramResult run(const Arguments& arguments, const Arguments& environment = {}) const {
        return run_program(whole(arguments), settings(environment));
    }

    // What it says when all goes well.
    std::string output(const Arguments& arguments, const Arguments& environment = {}) const {
        const ProgramResult result = run(arguments, environment);
        EXPECT_EQ(result.exit_code, 0) << testing::PrintToString(arguments) << "\n" << result.errors;
        return result.output;
    }

    nlohmann::json json(Arguments arguments, const Arguments& environment = {}) const {
        arguments.push_back("--json");
        const std::string text = output(arguments, environment);
        const nlohmann::json document = parse_json(text);
        EXPECT_EQ(document.value("schema_version", 0), 1);
        return document;
    }

    // It ends with this exit code, says all of `parts` on standard error and nothing on standard output.
    void expect_refusal(const Arguments& arguments, int exit_code, const Arguments& parts,
                        const Arguments& environment = {}) const {
        const ProgramResult result = run(arguments, environment);
        EXPECT_EQ(result.exit_code, exit_code) << testing::PrintToString(arguments) << result.errors;
        EXPECT_EQ(result.output, "");
        for (const std::string& part : parts) {
            EXPECT_NE(result.errors.find(part), std::string::npos) << "expected '" << part << "' in: " << result.errors;
        }
    }

    void TearDown() override {
        for (const auto& entry : std::filesystem::directory_iterator(here_.path())) {
            ADD_FAILURE() << "the program left " << entry.path();
        }
    }

    std::string path(const std::string& name) const { return (files_.path() / name).string(); }

    std::string write(const std::string& name, const std::string& text) const {
        write_file(path(name), text);
        return path(name);
    }
    std::string write(const std::string& name, const Bytes& bytes) const {
        return write(name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }

private:
    TempFolder here_, files_;
};

}  // namespace kvplane::test
