// Whether this machine and this program have what a manifest asks for. Nothing of the plugin, nor of the libraries that
// it names, is run to find out.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/manifest.h"

namespace kvplane {

// Throws Error(plugin), whose text is the reason alone, on the first need that is not met: ABI major, sanitizer, CPU
// features, driver libraries.
void check_requirements(const Manifest& manifest);

// Names are written as in /proc/cpuinfo or as in GCC's __builtin_cpu_supports: "avx512_vnni" is "avx512vnni".
enum class CpuFeature { present, absent, unknown };
CpuFeature cpu_feature(std::string_view name);

// Where the dynamic linker would find a library: LD_LIBRARY_PATH, its cache, the standard folders. Empty: nowhere.
std::filesystem::path find_system_library(const std::string& name);

// "none", "address" or "thread": what this program is built with.
const char* host_sanitizer() noexcept;

}  // namespace kvplane
