// Byte-pair merges on token ids: a piece starts as the tokens of its bytes, then the adjacent pair with the lowest rank
// (the leftmost on ties) becomes one token until no pair has a rule. A heap over a linked list makes that n log n.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvplane {

class BytePairs {
public:
    static constexpr int32_t no_token = -1;

    // Working memory of encode(); one for each thread, kept between pieces so that short ones allocate nothing.
    class Workspace {
        friend class BytePairs;
        struct Symbol {
            int32_t id;
            uint32_t previous, next;
        };
        struct Candidate {
            uint32_t rank, position;  // position of the left symbol
            int32_t left, right, merged;
        };
        std::vector<Symbol> symbols_;
        std::vector<Candidate> heap_;
    };

    BytePairs() { byte_tokens_.fill(no_token); }

    void set_byte(uint8_t byte, int32_t id) { byte_tokens_[byte] = id; }
    void reserve(size_t merges) { merges_.reserve(merges); }
    // Of two rules for one pair the first added counts; rules come in rising rank.
    void add_merge(int32_t left, int32_t right, uint32_t rank, int32_t merged);

    // Appends the tokens of `piece` (under 2^32 bytes). A byte that has no token of its own is dropped, as the Python
    // package tokenizers does.
    void encode(std::string_view piece, Workspace& work, std::vector<int32_t>& ids) const;

private:
    struct Merge {
        uint32_t rank;
        int32_t merged;
    };

    void propose(Workspace& work, uint32_t left, uint32_t right) const;

    std::array<int32_t, 256> byte_tokens_;
    std::unordered_map<uint64_t, Merge> merges_;  // by left << 32 | right
};

}  // namespace kvplane
