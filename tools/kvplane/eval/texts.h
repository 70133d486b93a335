// Texts that an evaluation gives an engine, many side by side: their prompts first, then a row of each a step.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.h"

namespace kvplane::tool {

// Open texts of an engine, closed with this.
class Texts {
public:
    explicit Texts(Engine& engine) : engine_(engine) {}
    ~Texts();
    Texts(const Texts&) = delete;
    Texts& operator=(const Texts&) = delete;

    uint64_t open(int64_t max_tokens);
    uint64_t fork(uint64_t text, int64_t max_tokens);  // 0: no room for it now
    void close(uint64_t text);

private:
    Engine& engine_;
    std::vector<uint64_t> open_;
};

// Computes all that waits. False: engine.should_stop said so.
bool run_steps(Engine& engine);

// A text with a prompt, read in full, and rows after it that are decoded; the scores behind rows from `first` on are
// wanted, of the last row among them.
struct WholeText {
    std::span<const int32_t> ids;
    int64_t prompt_tokens = 0;
    int64_t first = 0;
    Engine::OnLogits on_logits;
};

// As many of them at once as there is room for. False: interrupted.
bool evaluate_side_by_side(Engine& engine, std::vector<WholeText> texts);

}  // namespace kvplane::tool
