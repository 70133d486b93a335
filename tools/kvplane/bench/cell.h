// What is measured, in llama-bench's words. ppN: a prompt of N tokens. tgN@DEPTHxSEQUENCES: N tokens decoded after DEPTH
// (0 if left out) in each of SEQUENCES (1) sequences at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvplane::tool {

struct Cell {
    std::string name;
    bool prefill = false;
    int64_t tokens = 0;
    int64_t depth = 0;
    int64_t sequences = 1;

    // Tokens of the prompt that comes before the decoded ones: a model cannot decode after nothing.
    int64_t context() const { return depth > 0 ? depth : 1; }
};

// Names with commas between them; throws Error(usage).
std::vector<Cell> parse_cells(const std::string& text);

}  // namespace kvplane::tool
