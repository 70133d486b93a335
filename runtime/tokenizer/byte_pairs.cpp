#include "tokenizer/byte_pairs.h"

#include <algorithm>
#include <tuple>

namespace kvplane {

namespace {

constexpr uint32_t none = UINT32_MAX;

uint64_t pair_key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// For a heap whose top is the lowest rank, then the leftmost position.
constexpr auto comes_later = [](const auto& a, const auto& b) {
    return std::tie(a.rank, a.position) > std::tie(b.rank, b.position);
};

}  // namespace

void BytePairs::add_merge(int32_t left, int32_t right, uint32_t rank, int32_t merged) {
    merges_.try_emplace(pair_key(left, right), Merge{rank, merged});
}

void BytePairs::propose(Workspace& work, uint32_t left, uint32_t right) const {
    if (left == none || right == none) return;
    const int32_t left_id = work.symbols_[left].id, right_id = work.symbols_[right].id;
    const auto found = merges_.find(pair_key(left_id, right_id));
    if (found == merges_.end()) return;
    work.heap_.push_back({found->second.rank, left, left_id, right_id, found->second.merged});
    std::push_heap(work.heap_.begin(), work.heap_.end(), comes_later);
}

void BytePairs::encode(std::string_view piece, Workspace& work, std::vector<int32_t>& ids) const {
    auto& symbols = work.symbols_;
    auto& heap = work.heap_;
    symbols.clear();
    heap.clear();
    for (const char byte : piece) {
        const int32_t id = byte_tokens_[static_cast<uint8_t>(byte)];
        if (id == no_token) continue;
        const uint32_t position = static_cast<uint32_t>(symbols.size());
        symbols.push_back({id, position == 0 ? none : position - 1, position + 1});
    }
    if (symbols.empty()) return;
    symbols.back().next = none;
    for (uint32_t i = 1; i < symbols.size(); ++i) propose(work, i - 1, i);

    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end(), comes_later);
        const auto merge = heap.back();
        heap.pop_back();
        auto& left = symbols[merge.position];
        // Stale if either symbol has been merged since. A symbol that went into its left neighbour has no token.
        if (left.id != merge.left || left.next == none || symbols[left.next].id != merge.right) continue;
        auto& right = symbols[left.next];
        left.id = merge.merged;
        left.next = right.next;
        right.id = no_token;
        if (left.next != none) symbols[left.next].previous = merge.position;
        propose(work, left.previous, merge.position);
        propose(work, merge.position, left.next);
    }
    for (uint32_t i = 0; i != none; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace kvplane
