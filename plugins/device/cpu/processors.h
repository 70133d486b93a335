// How many processors this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvplane::cpu {

// By the affinity mask.
std::vector<int> allowed_processors();

// What the control groups above this process grant it, in processors; the least of version 2's cpu.max from `group`
// ("/a/b") up to the root of the hierarchy, and of version 1's cfs quota. Nothing: no limit.
std::optional<double> processor_quota(const std::string& root, const std::string& group);
std::optional<double> processor_quota();

// Threads that these two leave room for, at least 1.
uint32_t default_threads();

}  // namespace kvplane::cpu
