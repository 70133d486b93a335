// Rows in a codec that the device does not know. New rows are f16 in a ring beside the pages; the oldest of them are encoded
// into pages when the codec lets them go. What attention or a strategy names is decoded into scratch for as long as it
// is read. The device sees one table for both (LayerCache::shown).
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "memory/kv_store.h"

namespace kvplane {

// Rows of a layer that are in pages before a step: all, unless the codec keeps recent rows apart.
int64_t KvStore::stored(const SequenceCache& sequence, uint32_t layer) const {
    if (layout_.codec == nullptr || !layout_.codec->reads_own_step()) return sequence.n_rows(layer);
    return sequence.layers[layer].n_encoded;
}

// The same once the step's n_rows are written.
int64_t KvStore::stored_after(const SequenceCache& sequence, uint32_t layer, int64_t n_rows) const {
    const int64_t total = sequence.n_rows(layer) + n_rows;
    if (layout_.codec == nullptr || !layout_.codec->reads_own_step()) return total;
    const int64_t group = layout_.group_tokens;
    const int64_t old = std::max<int64_t>(0, total - layout_.codec->recent_tokens());
    return std::max(stored(sequence, layer), old / group * group);
}

kvp_address KvStore::recent_address(const LayerCache& layer, uint32_t kv_head, uint64_t group) const {
    const uint64_t place = uint64_t{kv_head} * layout_.recent_groups + group % layout_.recent_groups;
    return layer.recent.address() + place * layout_.shown_group_bytes();
}

void KvStore::show_recent(LayerCache& layer, int64_t begin, int64_t end) {
    const int64_t tokens = layout_.group_tokens;
    for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
        for (int64_t group = begin / tokens; group * tokens < end; ++group) {
            const auto index = static_cast<uint64_t>(group);
            layer.shown.set(head, index, recent_address(layer, head, index));
        }
    }
}

void KvStore::end_write(SequenceCache& sequence, uint32_t layer, int64_t n_rows) {
    if (layout_.codec == nullptr || layout_.codec->reads_own_step()) return;
    encode(sequence, layer, sequence.n_rows(layer) + n_rows);
}

// Rows from n_encoded to `end` go from the ring into pages.
void KvStore::encode(SequenceCache& sequence, uint32_t layer, int64_t end) {
    LayerCache& cache = sequence.layers[layer];
    if (end <= cache.n_encoded) return;
    take_pages(sequence, layer, cache.n_encoded, end);
    device_.synchronise();
    const int64_t tokens = layout_.group_tokens;
    std::vector<std::byte> rows(layout_.shown_group_bytes()), encoded(layout_.group_bytes());
    for (int64_t row = cache.n_encoded; row < end;) {
        const auto group = static_cast<uint64_t>(row / tokens);
        const int64_t next = std::min(end, static_cast<int64_t>(group + 1) * tokens);
        const auto inside = static_cast<uint64_t>(row % tokens);
        const auto n = static_cast<uint64_t>(next - row);
        for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
            const kvp_address from = recent_address(cache, head, group) + inside * layout_.shown_row_bytes();
            const kvp_address to = cache.groups.get(head, group) + inside * layout_.row_bytes();
            if (device_.reads_host_memory()) {
                layout_.codec->encode(n, reinterpret_cast<const void*>(from), reinterpret_cast<void*>(to));
            } else {
                device_.download(rows.data(), from, n * layout_.shown_row_bytes());
                layout_.codec->encode(n, rows.data(), encoded.data());
                device_.upload(to, encoded.data(), layout_.codec->bytes(n));
            }
            if (next % tokens == 0 && layout_.codec->reads_own_step()) cache.shown.set(head, group, 0);
        }
        row = next;
    }
    cache.n_encoded = end;
}

// Decodes the groups that segments name, as far as they are encoded, and shows them.
std::vector<KvStore::Need> KvStore::show_decoded(SequenceCache& sequence, uint32_t layer,
                                                 std::span<const kvp_segment* const> segments) {
    LayerCache& cache = sequence.layers[layer];
    const int64_t tokens = layout_.group_tokens;
    std::vector<Need> wanted;
    for (const kvp_segment* segment : segments) {
        if (segment->form == KVP_SEGMENT_VIRTUAL) continue;
        const std::vector<Need> named = needs(cache, *segment);
        wanted.insert(wanted.end(), named.begin(), named.end());
    }
    std::erase_if(wanted,
                  [&](const Need& need) { return static_cast<int64_t>(need.group) * tokens >= cache.n_encoded; });
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    device_.synchronise();  // who reads what was decoded before
    reserve_decoded(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
        const kvp_address to = decoded_address() + i * layout_.shown_group_bytes();
        decode_group(cache, wanted[i], to);
        cache.shown.set(wanted[i].kv_head, wanted[i].group, to);
    }
    return wanted;
}

void KvStore::hide_decoded(SequenceCache& sequence, uint32_t layer, std::span<const Need> decoded) {
    for (const Need& need : decoded) sequence.layers[layer].shown.set(need.kv_head, need.group, 0);
}

void KvStore::decode_group(const LayerCache& cache, const Need& need, kvp_address to) {
    const int64_t begin = static_cast<int64_t>(need.group) * layout_.group_tokens;
    const auto n = static_cast<uint64_t>(std::min<int64_t>(layout_.group_tokens, cache.n_encoded - begin));
    const kvp_address from = cache.groups.get(need.kv_head, need.group);
    if (from == 0) throw Error(ErrorKind::runtime, "encoded rows are not where the device has them; this is a bug");
    if (device_.reads_host_memory()) {
        layout_.codec->decode(n, reinterpret_cast<const void*>(from), reinterpret_cast<void*>(to));
        return;
    }
    std::vector<std::byte> encoded(layout_.group_bytes()), rows(layout_.shown_group_bytes());
    device_.download(encoded.data(), from, layout_.codec->bytes(n));
    layout_.codec->decode(n, encoded.data(), rows.data());
    device_.upload(to, rows.data(), n * layout_.shown_row_bytes());
}

void KvStore::reserve_decoded(size_t n_groups) {
    const uint64_t bytes = n_groups * layout_.shown_group_bytes();
    if (bytes > decoded_.bytes()) decoded_ = Buffer(device_, bytes + bytes / 2, "decoded rows");
}

// Before pages go: n_rows rows stay. Those of the last group of a codec that encodes groups become f16 again, what they lost
// is lost.
int64_t KvStore::reopen_group(SequenceCache& sequence, uint32_t layer, int64_t n_rows) {
    LayerCache& cache = sequence.layers[layer];
    const int64_t tokens = layout_.group_tokens;
    const int64_t kept = layout_.codec->reads_own_step() ? std::min(cache.n_encoded, n_rows / tokens * tokens)
                                                         : std::min(cache.n_encoded, n_rows);
    if (kept < cache.n_encoded && kept < n_rows) {
        const auto group = static_cast<uint64_t>(kept / tokens);
        for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
            decode_group(cache, {head, group}, recent_address(cache, head, group));
        }
        show_recent(cache, kept, n_rows);
    }
    for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
        for (auto group = static_cast<uint64_t>((n_rows + tokens - 1) / tokens); group < cache.shown.stride();
             ++group) {
            cache.shown.set(head, group, 0);
        }
    }
    cache.n_encoded = kept;
    return kept;
}

// A fork's own rows that are not encoded yet.
void KvStore::copy_recent(const SequenceCache& from, SequenceCache& to) {
    for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
        const LayerCache& source = from.layers[layer];
        LayerCache& target = to.layers[layer];
        target.n_encoded = source.n_encoded;
        const kvp_copy_region region{source.recent.address(), target.recent.address(), source.recent.bytes()};
        device_.copy({&region, 1});
        const int64_t first = stored(from, layer);
        if (first < from.n_rows(layer)) show_recent(target, first, from.n_rows(layer));
    }
}

// Rows [begin, end) of n_rows have left, whole groups. Those behind them that are not encoded yet move down: a row's place in
// the ring goes by its number.
void KvStore::move_recent(LayerCache& layer, int64_t n_rows, int64_t begin, int64_t end) {
    const int64_t tokens = layout_.group_tokens;
    const int64_t first = layer.n_encoded;
    if (first > begin) layer.n_encoded = std::max(begin, first - (end - begin));
    if (first >= n_rows) return;
    const int64_t moved = std::max(first, end) / tokens, last = (n_rows + tokens - 1) / tokens;
    const uint64_t bytes = layout_.shown_group_bytes();
    std::vector<kvp_copy_region> out, back;
    const Buffer held(device_, static_cast<uint64_t>(last - moved) * layout_.kv_heads * bytes, "recent rows that move");
    for (uint32_t head = 0; head < layout_.kv_heads; ++head) {
        for (int64_t group = moved; group < last; ++group) {
            const auto to = static_cast<uint64_t>(group - (end - begin) / tokens);
            const kvp_address meanwhile = held.address() + out.size() * bytes;
            out.push_back({recent_address(layer, head, static_cast<uint64_t>(group)), meanwhile, bytes});
            back.push_back({meanwhile, recent_address(layer, head, to), bytes});
        }
        for (int64_t group = first / tokens; group < last; ++group) {
            layer.shown.set(head, static_cast<uint64_t>(group), 0);
        }
    }
    device_.copy(out);
    device_.copy(back);
    device_.synchronise();  // `held` goes back
    show_recent(layer, layer.n_encoded, n_rows - (end - begin));
}

}  // namespace kvplane
