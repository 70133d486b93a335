// What a strategy learnt by calibration, kept in a file: "KVPAUX1\0", then (little-endian) u64 fingerprint of the
// model, u32 length and bytes of the strategy's id, u64 length of the data, u64 XXH3 of the data, the data.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvplane {

// Whole or not at all: a temporary file beside it takes its name when it is complete. Throws Error(runtime).
void write_aux_file(const std::filesystem::path& path, const std::string& strategy, uint64_t fingerprint,
                    std::span<const std::byte> data);

// Throws Error(config) that says what is wrong: not such a file, cut off, damaged, of another strategy or model. An empty
// fingerprint is that of any model.
std::vector<std::byte> read_aux_file(const std::filesystem::path& path, const std::string& strategy,
                                     std::optional<uint64_t> fingerprint);

}  // namespace kvplane
