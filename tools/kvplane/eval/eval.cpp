// kvplane eval: the quality of pipelines, one file a kind of measurement.
#include "command.h"
#include "eval/join.h"
#include "eval/perplexity.h"
#include "eval/retrieval.h"
#include "eval/tasks.h"

namespace kvplane::tool {

void add_eval(CLI::App& app, Action& action) {
    CLI::App* eval = app.add_subcommand("eval", "Measure the quality of pipelines");
    eval->require_subcommand(1);
    add_eval_perplexity(*eval, action);
    add_eval_tasks(*eval, action);
    add_eval_make_retrieval(*eval, action);
    add_eval_join(*eval, action);
}

}  // namespace kvplane::tool
