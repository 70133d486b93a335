#pragma once

#include "command.h"

namespace kvplane::tool {

void add_eval_make_retrieval(CLI::App& eval, Action& action);

}  // namespace kvplane::tool
