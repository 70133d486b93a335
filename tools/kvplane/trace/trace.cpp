// kvplane trace: what a strategy saw, step by step, in a file; and what another rule would have seen in its place.
#include "trace/trace.h"

namespace kvplane::tool {

void add_trace(CLI::App& app, Action& action) {
    CLI::App* trace = app.add_subcommand("trace", "Record what a strategy reads, and try other rules on the record");
    trace->require_subcommand(1);
    add_trace_record(*trace, action);
    add_trace_replay(*trace, action);
}

}  // namespace kvplane::tool
