// From a raw value to one of the type that the schema declares.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/problem.h"
#include "config/raw_value.h"
#include "config/schema.h"

namespace kvplane {

// As TOML would write it, for messages.
std::string to_string(const RawValue& raw);

// The value, or nothing after a problem was added. Relative paths are taken from `base`.
std::optional<OptionValue> convert(const OptionSpec& spec, const RawEntry& entry, const std::filesystem::path& base,
                                   Problems& problems);

}  // namespace kvplane
