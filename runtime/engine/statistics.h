// What a run did, in numbers; the sums that every report is made from.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace kvplane {

struct Statistics {
    uint64_t prefill_tokens = 0;
    uint64_t decode_tokens = 0;
    // A step that has a piece of a prompt in it counts as prefill; the others are decode steps.
    double prefill_seconds = 0;
    double decode_seconds = 0;
    uint64_t timed_decode_tokens = 0;  // of decode steps

    // Over decoding rows and the layers that select: rows attended to one by one, and rows of the text before,
    // those that a pool let go included.
    double rows_read = 0;
    double rows_past = 0;
    // Over decode steps, all layers: bytes of rows and virtual rows that attention read; bytes that the strategy's own
    // ops went through to choose them.
    double attended_bytes = 0;
    double index_bytes = 0;
    // Over decode steps: bytes that moved between tiers, and the KV's bytes.
    double bytes_moved = 0;
    double kv_bytes = 0;
    double transfer_wait_seconds = 0;
    // Rows that left caches for good, of a KV head, all layers together: victims of full pools and rows that a strategy
    // dropped. And the most that a sequence with a pool held.
    uint64_t rows_evicted = 0;
    uint64_t peak_rows = 0;

    double share_read() const { return rows_past > 0 ? rows_read / rows_past : 0; }
    // What a token of a decode step reads of the KV and of the strategy's data beside it.
    double read_bytes_per_token() const {
        const auto tokens = static_cast<double>(timed_decode_tokens);
        return tokens > 0 ? (attended_bytes + index_bytes) / tokens : 0;
    }
    double share_moved() const { return kv_bytes > 0 ? bytes_moved / kv_bytes : 0; }
    double prefill_rate() const {
        return prefill_seconds > 0 ? static_cast<double>(prefill_tokens) / prefill_seconds : 0;
    }
    double decode_rate() const {
        return decode_seconds > 0 ? static_cast<double>(timed_decode_tokens) / decode_seconds : 0;
    }
};

}  // namespace kvplane
