// The rules of base.h that no compiler checks: what stands above each function, and what a header may include.
#include <gtest/gtest.h>
#include <regex.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
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

// POSIX extended: std::regex makes g++ 12 warn about itself under AddressSanitizer.
class Pattern {
public:
    explicit Pattern(const char* text) { EXPECT_EQ(regcomp(&regex_, text, REG_EXTENDED), 0) << text; }
    ~Pattern() { regfree(&regex_); }
    Pattern(const Pattern&) = delete;
    Pattern& operator=(const Pattern&) = delete;

    // Empty when the text does not match; the last group of the pattern, or "yes" without one.
    std::string match(const std::string& text) const {
        regmatch_t groups[2];
        if (regexec(&regex_, text.c_str(), 2, groups, 0) != 0) return {};
        if (groups[1].rm_so < 0) return "yes";
        return text.substr(static_cast<size_t>(groups[1].rm_so),
                           static_cast<size_t>(groups[1].rm_eo - groups[1].rm_so));
    }

private:
    regex_t regex_;
};

// A member of a table, a callback type or an exported function; a parameter that is a function is none.
std::string function_name(const std::string& line) {
    static const Pattern member("^    [a-z][a-z0-9_* ]*\\(\\*([a-z0-9_]+)\\)\\(");
    static const Pattern callback("^typedef [a-z][a-z0-9_* ]*\\(\\*([a-z0-9_]+)\\)\\(");
    static const Pattern exported("^KVP_EXPORT [a-z][a-z0-9_* ]*[ *]([a-z0-9_]+)\\(");
    for (const Pattern* const form : {&member, &callback, &exported}) {
        if (const std::string name = form->match(line); !name.empty()) return name;
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
    static const Pattern four_lines(
        "\n *\\* thread: [^\n]+\n *\\* blocks: [^\n]+\n *\\* owns: [^\n]+\n *\\* since: [0-9]+\\.[0-9]+ \\*/\n$");
    size_t n_functions = 0;
    for (const fs::path& path : headers()) {
        for (const Function& function : functions_of(lines_of(path))) {
            ++n_functions;
            EXPECT_NE(four_lines.match(function.comment), "")
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
    static const Pattern loose("^ +(const )?(bool|_Bool|int|long|short|unsigned|size_t|enum) .*;");
    EXPECT_NE(loose.match("    size_t n;"), "");
    for (const fs::path& path : headers()) {
        for (const std::string& line : lines_of(path)) EXPECT_EQ(loose.match(line), "") << path << ": " << line;
    }
}

TEST(AbiHeaders, stay_short_enough_to_review) {
    for (const fs::path& path : headers()) EXPECT_LE(lines_of(path).size(), 600u) << path;
}

}  // namespace kvplane::test
