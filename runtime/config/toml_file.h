// Reading of a pipeline file. The TOML library is seen in toml_file.cpp alone.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/raw_value.h"

namespace kvplane {

// All keys of a TOML text, in the order of the tables. A fault in the syntax is added to `problems`, and nothing is
// returned.
std::vector<RawEntry> read_toml(std::string_view text, const std::string& file_name, Problems& problems);

// The file's text; throws Error(config) when it cannot be read, is no regular file, or is larger than any pipeline (1
// MiB).
std::string read_pipeline_file(const std::filesystem::path& file);

}  // namespace kvplane
