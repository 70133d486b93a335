// Just enough of ELF64 (System V gABI, chapters 4 and 5) to read a note out of a shared library without loading it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plugin/file.h"

namespace kvplane {

// The content of the note of this owner and type, from the program headers, else from the sections; empty when there is
// none. Throws Error(plugin), whose text is the reason alone, when the file is no shared library of this machine or
// is cut off (the dynamic linker would map beyond the end of the file and die).
std::optional<std::string> read_elf_note(const PluginFile& file, std::string_view owner, uint32_t type,
                                         uint64_t max_bytes);

}  // namespace kvplane
