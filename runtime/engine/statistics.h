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

    // Over decoding rows and the layers that select: rows attended to one by one, and past rows.
    double rows_read = 0;
    double rows_past = 0;
    // Over decode steps: bytes that moved between tiers, and the KV's bytes.
    double bytes_moved = 0;
    double kv_bytes = 0;
    double transfer_wait_seconds = 0;
    // Of pools with a limit: rows that left, a layer and KV head, and the most that a sequence held.
    uint64_t rows_evicted = 0;
    uint64_t peak_rows = 0;

    double share_read() const { return rows_past > 0 ? rows_read / rows_past : 0; }
    double share_moved() const { return kv_bytes > 0 ? bytes_moved / kv_bytes : 0; }
    double prefill_rate() const {
        return prefill_seconds > 0 ? static_cast<double>(prefill_tokens) / prefill_seconds : 0;
    }
    double decode_rate() const {
        return decode_seconds > 0 ? static_cast<double>(timed_decode_tokens) / decode_seconds : 0;
    }
};

}  // namespace kvplane
