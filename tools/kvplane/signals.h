// SIGINT and SIGTERM: the first asks for an end at the next token, the second ends the process at once.
#pragma once

namespace kvplane::tool {

void catch_signals();
// The signal that came, 0: none.
int caught_signal();

}  // namespace kvplane::tool
