// What the runtime writes to standard error goes through here, so that log lines and the progress line
// (the "status") never run into each other, whatever thread they come from.
#pragma once

#include <string>
#include <string_view>

namespace kvplane {

// True when standard error is a terminal.
bool stderr_is_terminal();

// Colour only on a terminal; never when NO_COLOR is set and not empty, or with TERM=dumb. NULL: variable not set.
bool colour_allowed(bool is_terminal, const char* no_color, const char* term);
bool stderr_takes_colour();

// Text from outside (file names, model metadata) with control bytes made visible, so that no escape sequence
// reaches a terminal. Tabs and line ends stay.
std::string printable(std::string_view text);

// Writes all of `text` to standard error; a status line is taken away before and put back after it.
void write_stderr(std::string_view text);

// Replaces the status line, the last line of the terminal; an empty one takes it away. Only for terminals.
void show_status(std::string_view text);

}  // namespace kvplane
