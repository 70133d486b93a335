// Where cached K and V are, in which tier, and how they get to where the device reads them.
//
// Two modes. In place: the device reads every tier; a page goes to the device tier while it has room, else to the host
// tier, and never moves. Copying: the device reads its own tier only. New rows are written there; full pages are
// stored to the host tier when the text will not fit, and evicted when the room is needed; what attention reads comes
// back through staging slots (whole pages) or the resident set (groups).
//
// Fences: a store starts behind the kernels that wrote the page (Transfers::submit); a slot is reused only after its
// store has ended and its readers have passed; rows are published to readers only when their load has ended.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "device/device.h"
#include "kvplane/kv.h"
#include "memory/host_memory.h"
#include "memory/page_layout.h"
#include "memory/resident_set.h"
#include "memory/scratch.h"
#include "memory/sequence_cache.h"
#include "memory/tier.h"
#include "memory/transfers.h"

namespace kvplane {

struct KvStoreOptions {
    uint64_t device_bytes = 0;  // budgets of the tiers; cut to whole pages
    uint64_t host_bytes = 0;
    uint64_t most_pages = 0;  // that all sequences together can grow to: a tier gets no more slots than that, and some
    bool in_place = true;
    uint32_t staging_pages = 8;
    double resident_share = 0.1;   // of the KV that open sequences may grow to
    uint32_t resident_layers = 2;  // whose pages leave the device tier last
    bool lower_tier = false;       // full pages live in the host tier alone
    bool rewrites_pages = false;   // rows may change in pages that are full: forks need room for pages of their own
};

class KvStore {
public:
    KvStore(Device& device, Transfers& transfers, const PageLayout& layout, const KvStoreOptions& options,
            std::vector<SidecarSpec> sidecars);
    ~KvStore();

    // Room for a sequence of up to max_tokens, in all tiers, all or nothing. Null: not now. Throws Error(memory) with
    // the numbers if it could never fit.
    SequenceCache* open(uint64_t id, uint64_t max_tokens);
    void close(SequenceCache* sequence);

    // A sequence that begins with all rows of `parent`. Full pages are shared, the page that is being filled and the
    // sidecars are copied. Null: no room now.
    SequenceCache* fork(SequenceCache& parent, uint64_t id, uint64_t max_tokens);
    // Whether rewind finds room: pages that others still use are no longer counted once, and the last one is copied.
    bool can_rewind(const SequenceCache& sequence, int64_t n_rows) const;
    // Forgets the rows from n_rows on. TOKEN sidecars of these rows and PAGE sidecars of pages that begin there are
    // zeroed; the rest of the sidecars is the strategy's to put right.
    void rewind(SequenceCache& sequence, int64_t n_rows);

    // Most new rows that a step may write in all its sequences together, so that every layer's pages find room.
    uint64_t max_step_tokens() const;

    // Makes room in a layer for the rows that a step appends.
    void begin_write(SequenceCache& sequence, uint32_t layer, int64_t n_rows);
    // The writing is on the queue.
    void end_write(SequenceCache& sequence, uint32_t layer, int64_t n_rows);
    // The rows are written and the layer's attention is on the queue: pages that became full may leave.
    void end_layer(SequenceCache& sequence, uint32_t layer, int64_t n_rows);
    // The step is over for this sequence: its rows count.
    void commit(SequenceCache& sequence, int64_t n_rows);

    // A pool that is full, in one layer: the rows of a page take the places of victims, [kv_head][page_tokens] rows of
    // the cache before that page, KV and TOKEN sidecars alike; then the page is taken out and those after it move down.
    void replace_rows(SequenceCache& sequence, uint32_t layer, uint32_t page, std::span<const int32_t> victims);
    // After replace_rows in all layers.
    void rows_were_replaced(SequenceCache& sequence) {
        sequence.n_cached -= layout_.page_tokens;
        for (LayerCache& layer : sequence.layers) layer.n_encoded -= layout_.page_tokens;
        sequence.fixed_rows = sequence.n_cached;
        rows_evicted_ += uint64_t{layout_.page_tokens} * sequence.layers.size();
    }

    // Rows that stay in a layer of n_rows rows, the step's own among them: of each KV head `n_chosen` that an index in
    // device memory names, i32[kv_head][stride], ascending and below tail_begin, and all from tail_begin on.
    struct Kept {
        kvp_address index;
        uint64_t stride;
        uint32_t n_chosen;
        int64_t tail_begin;
    };
    // The others leave this layer for good: those that stay move together, TOKEN sidecars with them, and pages that are
    // no longer needed go back to their tier. Throws Error(plugin) when the index is wrong.
    void keep_rows(SequenceCache& sequence, uint32_t layer, int64_t n_rows, const Kept& kept);
    // The same for n_pages whole pages of every KV head; PAGE sidecars move too.
    void drop_pages(SequenceCache& sequence, uint32_t layer, int64_t n_rows, uint32_t first, uint32_t n_pages);
    // Told of both, [kv_head][row]: which of the n_rows rows becomes that row.
    std::function<void(const SequenceCache& sequence, uint32_t layer, int64_t n_rows,
                       const std::vector<std::vector<int32_t>>& from)>
        on_rows_moved;

    kvp_rows rows(SequenceCache& sequence, uint32_t layer);

    // Starts to bring a segment's rows; 0 if there is nothing to bring or no room to bring it ahead.
    uint64_t fetch(SequenceCache& sequence, uint32_t layer, const kvp_segment& segment);

    // For a store that reads in pieces: calls `attend` with the segments that can be read as they are, then, with merge set, for
    // what has to come piece by piece.
    using Attend = std::function<void(std::span<const kvp_segment* const> segments, bool merge)>;
    void read(SequenceCache& sequence, uint32_t layer, std::span<const kvp_segment> segments, Scratch& scratch,
              const Attend& attend);

    // Calls `visit` for runs of cached rows [begin, end) that the device can read, in order.
    using Visit = std::function<void(const kvp_rows& rows, int64_t begin, int64_t end)>;
    void walk(SequenceCache& sequence, uint32_t layer, int64_t begin, int64_t end, const Visit& visit);

    // What a ROW_LIST or PAGE_LIST names, seen from the host: index [kv_head][stride], of which counts[kv_head] are
    // valid.
    struct Lists {
        std::vector<int32_t> index;
        std::vector<int32_t> counts;
        uint64_t stride;
    };
    Lists lists(const kvp_segment& segment);

    const Tier& device_tier() const { return device_tier_; }
    const Tier& host_tier() const { return host_tier_; }
    const PageLayout& layout() const { return layout_; }
    const KvStoreOptions& options() const { return options_; }
    bool in_place() const { return options_.in_place; }
    bool spills() const { return spills_; }
    // Attention goes through `read`.
    bool reads_in_pieces() const { return spills_ || layout_.codec != nullptr; }
    uint64_t sidecar_bytes() const;
    uint64_t peak_sidecar_bytes() const { return peak_sidecar_bytes_; }
    // Rows that replace_rows, keep_rows and drop_pages took out, of a KV head, all layers together.
    uint64_t rows_evicted() const { return rows_evicted_; }
    // Throws Error(runtime) unless every slot is accounted for.
    void verify() const;

private:
    using PageRef = std::shared_ptr<Page>;
    struct Store {
        TransferId transfer;
        std::vector<PageRef> pages;
    };
    // Leaves first: pages of layers that are read in full last, old pages first.
    using EvictionKey = std::tuple<bool, uint32_t, uint32_t, uint64_t, Page*>;
    std::vector<int32_t> host_copy(kvp_address address, uint64_t n_values);

    struct Need {
        uint32_t kv_head;
        uint64_t group;

        auto operator<=>(const Need&) const = default;
    };

    EvictionKey eviction_key(Page& page) const;
    // What a user of a page sees: an address, or 0.
    void show_page(const Page::User& user, uint32_t layer, kvp_address address);
    void show_resident_groups(const Page::User& user, uint32_t layer);
    kvp_address readable_address(const Page& page) const;
    int32_t acquire_device_slot(SlotUse use);
    bool evict_one();
    void store_pages(std::vector<PageRef> pages);
    void retire_stores(bool wait_for_one);
    void end_store();
    void share_slots();

    // Whether sequences with room for so many pages in all fit, and whether they then spill.
    enum class Room { none, without_spilling, by_spilling };
    Room room_for(uint64_t pages, uint64_t n_sequences) const;
    uint64_t count_reserved() const;
    SequenceCache* admit(uint64_t id, uint64_t max_tokens, uint64_t more_pages);
    void take_pages(SequenceCache& sequence, uint32_t layer, int64_t begin, int64_t end);
    PageRef new_page(SequenceCache& sequence, uint32_t layer, uint32_t index);
    void drop_page(SequenceCache& sequence, uint32_t layer, uint32_t index);
    void truncate_pages(SequenceCache& sequence, std::span<const int64_t> n_rows);
    void end_pages(SequenceCache& sequence, uint32_t layer, uint32_t first, uint32_t end);
    void copy_page(const Page& from, const Page& to);
    void own_page(SequenceCache& sequence, uint32_t layer, uint32_t index);
    void reopen_page(SequenceCache& sequence, uint32_t layer, uint32_t index);
    void copy_sidecars(const SequenceCache& from, SequenceCache& to);
    void clear_sidecars(SequenceCache& sequence, int64_t n_cached);
    void clear_sidecars(SequenceCache& sequence, uint32_t layer, int64_t begin, int64_t end);
    uint64_t room_for_resident() const;
    bool make_room_for_entry();
    void let_go_of_prefetches();

    struct StreamedRange {
        kvp_segment like;
        std::vector<uint32_t> pages;  // of it that the device does not have
    };
    struct ReadPlan {
        std::vector<kvp_segment> now;  // readable as they are
        std::vector<Ticket> held;      // what `now` relies on
        std::vector<StreamedRange> streamed;
        std::vector<kvp_segment> in_pieces;  // whose groups do not find room all at once
    };
    ReadPlan plan_read(SequenceCache& sequence, uint32_t layer, std::span<const kvp_segment> segments);
    void plan_long_range(const LayerCache& cache, const kvp_segment& segment, ReadPlan& plan) const;

    // Rows in a codec that the device does not know (kv_store_codec.cpp).
    int64_t stored(const SequenceCache& sequence, uint32_t layer) const;
    int64_t stored_after(const SequenceCache& sequence, uint32_t layer, int64_t n_rows) const;
    kvp_address recent_address(const LayerCache& layer, uint32_t kv_head, uint64_t group) const;
    void show_recent(LayerCache& layer, int64_t begin, int64_t end);
    void encode(SequenceCache& sequence, uint32_t layer, int64_t end);
    std::vector<Need> show_decoded(SequenceCache& sequence, uint32_t layer,
                                   std::span<const kvp_segment* const> segments);
    void hide_decoded(SequenceCache& sequence, uint32_t layer, std::span<const Need> decoded);
    void decode_group(const LayerCache& layer, const Need& need, kvp_address to);
    void reserve_decoded(size_t n_groups);
    kvp_address decoded_address() const { return decoded_.address(); }
    int64_t reopen_group(SequenceCache& sequence, uint32_t layer, int64_t n_rows);
    void copy_recent(const SequenceCache& from, SequenceCache& to);
    void move_recent(LayerCache& layer, int64_t n_rows, int64_t begin, int64_t end);

    struct RowMoves {
        std::vector<uint64_t> from, to;
    };
    struct Moves;
    std::vector<std::vector<int32_t>> sources(const Kept& kept, int64_t n_rows);
    void gather_kept(SequenceCache& sequence, uint32_t layer, int64_t n_rows, Moves& moves);
    void scatter_kept(SequenceCache& sequence, uint32_t layer, const Moves& moves);
    void keep_token_sidecars(SequenceCache& sequence, uint32_t layer, int64_t n_rows, const Moves& moves);
    void let_go_of_layer(LayerCache& layer);
    void rows_left(SequenceCache& sequence, uint32_t layer, int64_t n_rows, int64_t n_dropped);

    void copy_rows(const Tier& from, const Tier& to, RowMoves& moves);
    void move_token_sidecars(SequenceCache& sequence, uint32_t layer, uint32_t page, std::span<const int32_t> victims);
    void move_sidecars_down(SequenceCache& sequence, uint32_t layer, uint32_t page);
    void remove_page(SequenceCache& sequence, uint32_t layer, uint32_t page);

    std::vector<Need> needs(const LayerCache& layer, const kvp_segment& segment);
    bool gather(SequenceCache& sequence, uint32_t layer, std::span<const Need> needs, uint32_t priority, Ticket& ticket,
                size_t* n_taken);
    void publish(Ticket& ticket);
    void release(Ticket& ticket);
    void stream(SequenceCache& sequence, uint32_t layer, std::span<const uint32_t> pages,
                const std::function<void(uint32_t first, uint32_t last)>& use);
    void read_rows_in_pieces(SequenceCache& sequence, uint32_t layer, const kvp_segment& segment, Scratch& scratch,
                             const std::function<void(const kvp_segment&)>& attend);

    Device& device_;
    Transfers& transfers_;
    PageLayout layout_;
    KvStoreOptions options_;
    std::vector<SidecarSpec> sidecars_;
    Buffer device_memory_;
    HostMemory host_memory_;
    Tier device_tier_;
    Tier host_tier_;
    std::vector<int32_t> staging_;
    ResidentSet resident_;
    std::list<SequenceCache> sequences_;
    uint64_t reserved_pages_ = 0;  // that open sequences may grow to, shared ones counted once
    uint64_t last_page_ = 0;
    bool spills_ = false;
    Buffer decoded_;
    std::set<EvictionKey> evictable_;
    std::deque<Store> stores_;
    uint64_t last_ticket_ = 0;
    uint64_t peak_sidecar_bytes_ = 0;
    uint64_t rows_evicted_ = 0;
};

}  // namespace kvplane
