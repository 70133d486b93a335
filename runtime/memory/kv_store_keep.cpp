// Rows that leave one layer for good: the rows that stay move together, and the pages behind them go back to their tier.
// Layers may keep different numbers of rows; every KV head of a layer keeps as many as the others, each its own.
#include <algorithm>

#include "base/error.h"
#include "memory/kv_store.h"

namespace kvplane {

namespace {

constexpr const char* blame = "the KV strategy keeps rows that are out of bounds or not in order";

}  // namespace

// What moves: from page `first_page` on the layer is made of the rows `from` [kv_head][row], which lie in `held` meanwhile.
struct KvStore::Moves {
    uint32_t first_page;
    int64_t first_row;
    int64_t n_rows;  // that the layer has in the end
    std::vector<std::vector<int32_t>> from;
    Buffer held;

    int64_t n_moved() const { return n_rows - first_row; }
};

// [kv_head][row]: which row becomes that row.
std::vector<std::vector<int32_t>> KvStore::sources(const Kept& kept, int64_t n_rows) {
    if (kept.tail_begin < 0 || kept.tail_begin > n_rows || kept.n_chosen > kept.stride) {
        throw Error(ErrorKind::plugin, blame);
    }
    std::vector<std::vector<int32_t>> from(layout_.kv_heads);
    const std::vector<int32_t> index =
        kept.n_chosen == 0 ? std::vector<int32_t>() : host_copy(kept.index, layout_.kv_heads * kept.stride);
    for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
        int64_t before = -1;
        for (uint64_t i = 0; i < kept.n_chosen; ++i) {
            const int32_t row = index[head * kept.stride + i];
            if (row <= before || row >= kept.tail_begin) throw Error(ErrorKind::plugin, blame);
            from[head].push_back(row);
            before = row;
        }
        for (int64_t row = kept.tail_begin; row < n_rows; ++row) from[head].push_back(static_cast<int32_t>(row));
    }
    return from;
}

void KvStore::keep_rows(SequenceCache& sequence, uint32_t layer, int64_t n_rows, const Kept& kept) {
    LayerCache& cache = sequence.layers[layer];
    Moves moves{0, 0, 0, sources(kept, n_rows), {}};
    moves.n_rows = static_cast<int64_t>(moves.from.front().size());
    if (moves.n_rows == n_rows) return;
    if (on_rows_moved) on_rows_moved(sequence, layer, n_rows, moves.from);
    int64_t unmoved = moves.n_rows;  // rows that stay where they are
    for (const auto& from : moves.from) {
        int64_t row = 0;
        while (row < unmoved && from[static_cast<size_t>(row)] == row) ++row;
        unmoved = row;
    }
    moves.first_page = static_cast<uint32_t>(unmoved / layout_.page_tokens);
    moves.first_row = int64_t{moves.first_page} * layout_.page_tokens;

    let_go_of_layer(cache);
    if (moves.n_moved() > 0) gather_kept(sequence, layer, n_rows, moves);
    keep_token_sidecars(sequence, layer, n_rows, moves);
    for (uint32_t index = moves.first_page; index < sequence.n_pages; ++index) drop_page(sequence, layer, index);
    rows_left(sequence, layer, n_rows, n_rows - moves.n_rows);
    if (moves.n_moved() > 0) scatter_kept(sequence, layer, moves);
}

void KvStore::drop_pages(SequenceCache& sequence, uint32_t layer, int64_t n_rows, uint32_t first, uint32_t n_pages) {
    const int64_t page_tokens = layout_.page_tokens;
    if ((int64_t{first} + n_pages) * page_tokens > n_rows) {
        throw Error(ErrorKind::plugin, "the KV strategy drops pages that are not full");
    }
    if (n_pages == 0) return;
    if (on_rows_moved) {
        std::vector<int32_t> from;
        for (int64_t row = 0; row < n_rows; ++row) {
            const int64_t page = row / page_tokens;
            if (page < first || page >= int64_t{first} + n_pages) from.push_back(static_cast<int32_t>(row));
        }
        on_rows_moved(sequence, layer, n_rows, std::vector<std::vector<int32_t>>(layout_.kv_heads, from));
    }
    let_go_of_layer(sequence.layers[layer]);
    for (uint32_t i = 0; i < n_pages; ++i) remove_page(sequence, layer, first);
    if (layout_.codec != nullptr) {
        move_recent(sequence.layers[layer], n_rows, first * page_tokens, (int64_t{first} + n_pages) * page_tokens);
    }
    clear_sidecars(sequence, layer, n_rows - n_pages * page_tokens, n_rows);
    rows_left(sequence, layer, n_rows, n_pages * page_tokens);
}

// Nothing may be under way to or from pages that move.
void KvStore::let_go_of_layer(LayerCache& layer) {
    while (!stores_.empty()) retire_stores(true);
    for (Ticket& ticket : layer.tickets) {
        publish(ticket);
        release(ticket);
    }
    layer.tickets.clear();
}

// A rewind cannot bring them back, and others may have the room.
void KvStore::rows_left(SequenceCache& sequence, uint32_t layer, int64_t n_rows, int64_t n_dropped) {
    LayerCache& cache = sequence.layers[layer];
    sequence.fixed_rows = std::max(sequence.fixed_rows, n_rows + cache.n_dropped);
    cache.n_dropped += n_dropped;
    rows_evicted_ += static_cast<uint64_t>(n_dropped);
    reserved_pages_ = count_reserved();
}

// Reads through `walk`, since rows may be away.
void KvStore::gather_kept(SequenceCache& sequence, uint32_t layer, int64_t n_rows, Moves& moves) {
    const uint64_t row_bytes = layout_.row_bytes();
    const auto n_moved = static_cast<uint64_t>(moves.n_moved());
    moves.held = Buffer(device_, n_moved * layout_.kv_heads * row_bytes, "rows that move");
    const GroupTable& groups = sequence.layers[layer].groups;
    std::vector<uint64_t> next(layout_.kv_heads, static_cast<uint64_t>(moves.first_row));
    std::vector<kvp_copy_region> copies;
    walk(sequence, layer, moves.first_row, n_rows, [&](const kvp_rows&, int64_t, int64_t end) {
        copies.clear();
        for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
            const auto& from = moves.from[head];
            for (uint64_t& row = next[head]; row < from.size() && from[row] < end; ++row) {
                const auto source = static_cast<uint64_t>(from[row]);
                const uint64_t to = head * n_moved + row - static_cast<uint64_t>(moves.first_row);
                copies.push_back(
                    {groups.get(head, source / layout_.group_tokens) + source % layout_.group_tokens * row_bytes,
                     moves.held.address() + to * row_bytes, row_bytes});
            }
        }
        device_.copy(copies);
    });
}

void KvStore::scatter_kept(SequenceCache& sequence, uint32_t layer, const Moves& moves) {
    const uint64_t row_bytes = layout_.row_bytes();
    const auto n_moved = static_cast<uint64_t>(moves.n_moved());
    const uint32_t end_page = layout_.pages(static_cast<uint64_t>(moves.n_rows));
    const auto n_full = static_cast<uint32_t>(moves.n_rows / layout_.page_tokens);
    for (uint32_t index = moves.first_page; index < end_page; ++index) {
        sequence.layers[layer].pages[index] = new_page(sequence, layer, index);
        const kvp_address page = readable_address(*sequence.layers[layer].pages[index]);
        const uint64_t first = uint64_t{index} * layout_.page_tokens - static_cast<uint64_t>(moves.first_row);
        const uint64_t rows = std::min<uint64_t>(layout_.page_tokens, n_moved - first);
        std::vector<kvp_copy_region> copies;
        for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
            copies.push_back({moves.held.address() + (head * n_moved + first) * row_bytes,
                              page + head * layout_.head_bytes(), rows * row_bytes});
        }
        device_.copy(copies);
        // At once, so that the device tier need not hold more than one of them that cannot leave.
        if (index < n_full) end_pages(sequence, layer, index, index + 1);
    }
    device_.synchronise();  // `held` goes back
}

// By way of a copy: rows move onto others that have not moved yet.
void KvStore::keep_token_sidecars(SequenceCache& sequence, uint32_t layer, int64_t n_rows, const Moves& moves) {
    const auto n_moved = static_cast<uint64_t>(moves.n_moved());
    for (size_t i = 0; i < sidecars_.size(); ++i) {
        const SidecarSpec& spec = sidecars_[i];
        const kvp_address base = sequence.layers[layer].sidecars[i].address();
        if (base == 0 || spec.scope != KVP_SIDECAR_TOKEN) continue;
        const uint64_t head_bytes = sequence.sidecar_capacity(spec.scope) * spec.bytes;
        if (n_moved > 0) {
            const Buffer held(device_, n_moved * layout_.kv_heads * spec.bytes, "sidecars of rows that move");
            std::vector<kvp_copy_region> out, back;
            for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
                const kvp_address rows = base + head * head_bytes;
                const kvp_address meanwhile = held.address() + head * n_moved * spec.bytes;
                for (uint64_t row = 0; row < n_moved; ++row) {
                    const auto from = moves.from[head][static_cast<uint64_t>(moves.first_row) + row];
                    out.push_back(
                        {rows + static_cast<uint64_t>(from) * spec.bytes, meanwhile + row * spec.bytes, spec.bytes});
                }
                back.push_back(
                    {meanwhile, rows + static_cast<uint64_t>(moves.first_row) * spec.bytes, n_moved * spec.bytes});
            }
            device_.copy(out);
            device_.copy(back);
            device_.synchronise();
        }
    }
    // Rows that come later find them as new. PAGE sidecars are the strategy's to make anew.
    clear_sidecars(sequence, layer, moves.n_rows, n_rows);
}

}  // namespace kvplane
