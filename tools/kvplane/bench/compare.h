// kvplane bench compare: did it get faster or slower?
#pragma once

#include "command.h"

namespace kvplane::tool {

void add_bench_compare(CLI::App& bench, Action& action);

}  // namespace kvplane::tool
