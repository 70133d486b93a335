// "Did you mean": the name that a mistyped one was most likely to be.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kvplane {

// Letters to insert, delete, replace, or swap with their neighbour, to turn one text into the other (optimal string
// alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate at distance 2 or less (1 for names under four letters); else the shortest one that continues the
// name or that the name continues, from three letters on. Empty when none is near. Equal candidates: the first.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// The same for dotted keys: first the whole key, then the same last part elsewhere ("kv.page_tokens" for
// "memory.page_tokens").
std::string nearest_key(std::string_view key, std::span<const std::string> candidates);

}  // namespace kvplane
