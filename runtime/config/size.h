// Sizes as people write them. The prefix says what the factor is, and case matters for one letter alone:
//   k m g t     1000, 1000², 1000³, 1000⁴     8k     =  8 000
//   K M G T     1024, 1024², 1024³, 1024⁴     32K    = 32 768
//   KB MB GB TB (kB …)   powers of 1000       1.5GB  = 1 500 000 000
//   KiB MiB GiB TiB (kiB …)   powers of 1024  4MiB   = 4 194 304
// and a bare number, or one with B, counts bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvplane {

// Empty when the text is no size or does not fit 64 bits. Up to six decimals; what is left of a byte is cut off.
std::optional<uint64_t> parse_size(std::string_view text);

// What parse_size() takes, for messages.
std::string_view size_syntax() noexcept;

// "4 MiB" where the number is whole in its unit, else with one decimal ("1.5 GiB"); bytes below 1 KiB.
std::string format_size(uint64_t bytes);

}  // namespace kvplane
