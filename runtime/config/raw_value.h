// Values before a schema has given them their type: as TOML types them, or as plain text from the environment and
// --set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/problem.h"

namespace kvplane {

enum class RawKind { boolean, integer, real, string, list, table, date_or_time, plain_text };

struct RawValue {
    RawKind kind = RawKind::plain_text;
    bool boolean = false;
    int64_t integer = 0;
    double real = 0.0;
    std::string text;            // string and plain_text
    std::vector<RawValue> list;  // list
};

// One key of a source with its value. A table is an entry of its own, before the entries in it.
struct RawEntry {
    std::string key;  // parts joined by dots; a part that is no bare key keeps quotes, so that no schema knows it
    RawValue value;
    Place key_place;
    Place value_place;
};

}  // namespace kvplane
