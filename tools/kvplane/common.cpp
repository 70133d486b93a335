#include "common.h"

#include <fstream>
#include <iostream>
#include <sstream>

#include "base/error.h"
#include "observe/log.h"

namespace kvplane::tool {

void add_pipeline_options(CLI::App& command, PipelineOptions& options) {
    add_pipeline_file(command, options);
    add_override_options(command, options);
}

void add_pipeline_file(CLI::App& command, PipelineOptions& options) {
    command.add_option("-p,--pipeline", options.file, "pipeline file (TOML); without it the defaults hold");
}

void add_override_options(CLI::App& command, PipelineOptions& options) {
    command.add_option("--set", options.overrides, "KEY=VALUE: overrides a key of the pipeline; may be repeated")
        ->expected(1)
        ->take_all();
    command.add_flag("-v,--verbose", options.verbose, "log more; may be repeated");
    command.add_flag("-q,--quiet", options.quiet, "log errors only");
    command.add_flag("--no-color", options.no_colour, "no colour in the log");
}

Pipeline load_pipeline(const PipelineOptions& options, const std::vector<std::string>& more) {
    PipelineRequest request;
    request.file = options.file;
    request.overrides = options.overrides;
    request.overrides.insert(request.overrides.end(), more.begin(), more.end());
    request.environment = PipelineRequest::process_environment();
    Pipeline pipeline = Pipeline::load(request);
    if (options.no_colour) set_log_colour(false);
    set_log_levels(LogLevels::parse(pipeline.text("log.level")).more_verbose(options.verbose - options.quiet));
    return pipeline;
}

void print_json(nlohmann::ordered_json document) {
    nlohmann::ordered_json whole = {{"schema_version", 1}};
    whole.update(document);
    // Text from a model may hold bytes that are no UTF-8.
    std::cout << whole.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << std::endl;
}

std::string read_text_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    if (in) text << in.rdbuf();
    if (!in || in.bad()) throw Error(ErrorKind::usage, path + ": cannot be read; is the path right?");
    return text.str();
}

}  // namespace kvplane::tool
