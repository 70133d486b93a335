// Turns the bytes of tokens, as they come, into text that is valid UTF-8 at every step.
#pragma once

#include <string>
#include <string_view>

namespace kvplane {

class Utf8Stream {
public:
    // The characters that are complete now. A start of a character is held back until its rest arrives; bytes that no
    // text can hold become U+FFFD, one for each longest start of a character (Unicode 16, §3.9).
    std::string push(std::string_view bytes);
    // What was held back, as U+FFFD: nothing more will come.
    std::string finish();

private:
    std::string held_;  // at most 3 bytes
};

}  // namespace kvplane
