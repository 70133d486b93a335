#pragma once

#include "command.h"

namespace kvplane::tool {

void add_trace_record(CLI::App& trace, Action& action);
void add_trace_replay(CLI::App& trace, Action& action);

}  // namespace kvplane::tool
