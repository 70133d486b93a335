// The rules of base.h that no compiler checks: what stands above each function, and what a header may include.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace kvplane::test {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> headers() {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(KVPLANE_ABI_HEADERS)) {
        if (entry.path().extension() == ".h" && entry.path().filename() != "dlpack.h") paths.push_back(entry.path());
    }
    return paths;
}

std::vector<std::string> lines_of(const fs::path& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

struct Function {
    std::string name;
    std::string comment;  // right above it, or above the functions that it stands together with
};

// A member of a table, a callback type or an exported function; a parameter that is a function is none.
std::string function_name(const std::string& line) {
    static const std::regex member(R"(^    \w[\w ]*[ *]\(\*(\w+)\)\(.*)");
    static const std::regex callback(R"(^typedef \w[\w *]*\(\*(\w+)\)\(.*)");
    static const std::regex exported(R"(^KVP_EXPORT .*[ *](\w+)\(.*)");
    std::smatch match;
    for (const std::regex* const form : {&member, &callback, &exported}) {
        if (std::regex_match(line, match, *form)) return match[1];
    }
    return {};
}

std::vector<Function> functions_of(const std::vector<std::string>& lines) {
    std::vector<Function> functions;
    std::string comment;
    bool inside = false;
    for (const std::string& line : lines) {
        const bool opens = line.find_first_not_of(' ') == line.find("/*") && line.find("/*") != std::string::npos;
        if (opens) {
            comment.clear();
            inside = true;
        }
        if (inside) {
            comment += line + "\n";
            inside = line.find("*/") == std::string::npos;
            continue;
        }
        if (line.empty()) comment.clear();
        if (const std::string name = function_name(line); !name.empty()) functions.push_back({name, comment});
    }
    return functions;
}

}  // namespace

TEST(AbiHeaders, say_thread_blocks_owns_and_since_of_every_function) {
    static const std::regex four_lines(
        R"([^]*\n *\* thread: \S[^\n]*\n *\* blocks: \S[^\n]*\n *\* owns: \S[^\n]*\n *\* since: \d+\.\d+ \*/\n)");
    size_t n_functions = 0;
    for (const fs::path& path : headers()) {
        for (const Function& function : functions_of(lines_of(path))) {
            ++n_functions;
            EXPECT_TRUE(std::regex_match(function.comment, four_lines))
                << path.filename() << ": " << function.name << " has this comment:\n"
                << function.comment;
        }
    }
    // Far fewer would mean that this test no longer recognises them.
    EXPECT_GT(n_functions, 80u);
}

TEST(AbiHeaders, include_each_other_and_two_headers_of_the_language_only) {
    for (const fs::path& path : headers()) {
        for (const std::string& line : lines_of(path)) {
            if (!line.starts_with("#include")) continue;
            const std::string name = line.substr(10, line.size() - 11);
            const bool own = line[9] == '"' && fs::exists(path.parent_path() / name);
            EXPECT_TRUE(own || line == "#include <stddef.h>" || line == "#include <stdint.h>") << path << ": " << line;
        }
    }
}

TEST(AbiHeaders, hold_no_type_whose_size_is_the_compiler_s_choice) {
    static const std::regex loose(R"(^ +(const )?(bool|_Bool|int|long|short|unsigned|size_t|enum) .*;.*)");
    for (const fs::path& path : headers()) {
        for (const std::string& line : lines_of(path))
            EXPECT_FALSE(std::regex_match(line, loose)) << path << ": " << line;
    }
}

TEST(AbiHeaders, stay_short_enough_to_review) {
    for (const fs::path& path : headers()) EXPECT_LE(lines_of(path).size(), 600u) << path;
}

}  // namespace kvplane::test
