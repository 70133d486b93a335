// Rows K||V and what codecs make of them, by tests/reference/make_codec_golden.py.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvplane::test {

constexpr uint32_t kCodecHeadSizes[] = {16, 64, 80, 128};
constexpr uint64_t kCodecTokens = 65;

inline std::vector<uint8_t> codec_file(const std::string& folder, const std::string& name) {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.empty()) throw std::runtime_error("no golden file " + name);
    return bytes;
}

// f16[65][2 * head_size]
inline std::vector<uint16_t> codec_rows(const std::string& folder, uint32_t head_size) {
    const auto bytes = codec_file(folder, "rows_" + std::to_string(head_size) + ".f16");
    std::vector<uint16_t> rows(bytes.size() / 2);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8);
    return rows;
}

inline std::vector<uint8_t> codec_bytes(const std::string& folder, const std::string& codec, uint32_t head_size) {
    return codec_file(folder, codec + "_" + std::to_string(head_size) + ".bin");
}

}  // namespace kvplane::test
