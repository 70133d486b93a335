#include "observe/terminal.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>

namespace kvplane {

namespace {

constexpr std::string_view erase_line = "\r\x1b[K";

struct Screen {
    std::mutex mutex;
    std::string status;
};

// Never destroyed: threads and static destructors may still log while the program ends.
Screen& screen() {
    static auto* instance = new Screen;
    return *instance;
}

// A closed or full standard error is nobody's failure: what cannot be written is dropped.
void write_fully(std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
        if (written > 0) {
            text.remove_prefix(static_cast<size_t>(written));
        } else if (written == 0 || errno != EINTR) {
            return;
        }
    }
}

}  // namespace

bool stderr_is_terminal() {
    return ::isatty(STDERR_FILENO) == 1;
}

bool colour_allowed(bool is_terminal, const char* no_color, const char* term) {
    if (!is_terminal) return false;
    if (no_color != nullptr && *no_color != '\0') return false;
    return term == nullptr || std::string_view(term) != "dumb";
}

bool stderr_takes_colour() {
    return colour_allowed(stderr_is_terminal(), std::getenv("NO_COLOR"), std::getenv("TERM"));
}

std::string printable(std::string_view text) {
    constexpr char digits[] = "0123456789abcdef";
    std::string result;
    result.reserve(text.size());
    for (const char character : text) {
        const auto byte = static_cast<unsigned char>(character);
        if ((byte >= 0x20 && byte != 0x7f) || character == '\n' || character == '\t') {
            result += character;
        } else {
            result += "\\x";
            result += digits[byte >> 4];
            result += digits[byte & 15];
        }
    }
    return result;
}

void write_stderr(std::string_view text) {
    Screen& output = screen();
    const std::lock_guard lock(output.mutex);
    if (output.status.empty()) return write_fully(text);
    // One write, so that the terminal never shows the state between.
    write_fully(std::string(erase_line).append(text).append(output.status));
}

void show_status(std::string_view text) {
    Screen& output = screen();
    const std::lock_guard lock(output.mutex);
    if (output.status == text) return;
    output.status = text;
    write_fully(std::string(erase_line).append(text));
}

}  // namespace kvplane
