// Options and output that sub-commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/pipeline.h"

namespace kvplane::tool {

// -p, --set, -v, -q, --no-color: what every command that reads a pipeline takes.
struct PipelineOptions {
    std::string file;
    std::vector<std::string> overrides;
    int verbose = 0;
    int quiet = 0;
    bool no_colour = false;
};

void add_pipeline_options(CLI::App& command, PipelineOptions& options);
// Its parts: -p; and the rest.
void add_pipeline_file(CLI::App& command, PipelineOptions& options);
void add_override_options(CLI::App& command, PipelineOptions& options);

// Reads the pipeline and sets the log up by it. `more` are overrides that other options of the command stand for.
Pipeline load_pipeline(const PipelineOptions& options, const std::vector<std::string>& more = {});

// One document on standard output, with schema_version in front.
void print_json(nlohmann::ordered_json document);

std::string read_text_file(const std::string& path);  // throws Error(usage)

}  // namespace kvplane::tool
