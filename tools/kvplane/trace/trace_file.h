// A recorded run: what each look at (decode step, layer) saw, and what moved. Little-endian:
//
//     "KVTRACE1", then records: u32 kind, u32 bytes of the payload, payload, u64 XXH3 of kind, size and payload
//
// The first record is the header, the last one the end, which says how many there are between; so a file that was cut off
// is known. Lists of tokens are differences as LEB128; attention weights are bf16.
#pragma once

#include <cstdint>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace kvplane::tool {

struct TraceHeader {
    uint64_t model = 0;  // fingerprint
    uint32_t layers = 0, heads = 0, kv_heads = 0;
    uint32_t page_tokens = 0, group_tokens = 0;
    uint32_t row_bytes = 0;  // of a token and KV head
    uint32_t prompt_tokens = 0;
    bool scores = false;  // samples hold attention weights
    std::string strategy, settings;
};

struct TraceSample {
    uint64_t step = 0;
    uint32_t layer = 0;
    uint32_t position = 0;                      // of the query; tokens up to it could be seen
    std::vector<std::vector<int32_t>> visible;  // [kv_head]: tokens, ascending
    std::vector<float> weights;                 // [head][position + 1], if there are scores
};

// What moved and left in a decode step or, at the last position of the prompt, in all of the prompt.
struct TraceStep {
    uint64_t step = 0;
    uint32_t position = 0;
    uint64_t bytes_to_device = 0, bytes_to_host = 0;
    uint64_t rows_evicted = 0;  // of a KV head, all layers together
};

class TraceWriter {
public:
    // Throws Error(usage) when the file cannot be written.
    TraceWriter(const std::string& file, const TraceHeader& header);
    void add(const TraceSample& sample);
    void add(const TraceStep& step);
    void finish();

private:
    void record(uint32_t kind, const std::string& payload);

    std::string file_;
    std::ofstream out_;
    bool scores_;
    uint64_t n_records_ = 0;
};

struct TraceVisitor {
    std::function<void(const TraceSample&)> on_sample;
    std::function<void(const TraceStep&)> on_step;
};

// Reads a whole file in order; `on_header` comes first. Throws Error(usage) for one that is of another kind or version, cut
// off, damaged, or says what cannot be.
void read_trace(const std::string& file, const std::function<TraceVisitor(const TraceHeader&)>& on_header);

}  // namespace kvplane::tool
