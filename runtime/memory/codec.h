// The codec that the pipeline chose, for one head size (kvplane/codec.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "device/device.h"
#include "kvplane/codec.h"

namespace kvplane {

class Codec {
public:
    // Throws Error(config) with the codec's reason when it cannot encode such rows.
    Codec(const kvp_codec* table, std::string id, const Explain& explain, uint32_t head_size);

    const std::string& id() const { return id_; }
    const std::string& summary() const { return summary_; }
    uint32_t row_type() const { return info_.row_type; }  // of ops.h, 0: none
    uint32_t block_tokens() const { return info_.block_tokens; }
    uint32_t recent_tokens() const { return info_.recent_tokens; }
    bool reads_own_step() const { return info_.reads_own_step != 0; }
    uint64_t bytes(uint64_t n_tokens) const { return table_->encoded_bytes(head_size_, n_tokens); }

    // Throws Error(config) unless whole blocks fill a page.
    void expect_pages_of(uint32_t tokens) const;

    // Rows f16[n_tokens][2 * head_size], in host memory. Throw Error(plugin).
    void encode(uint64_t n_tokens, const void* rows, void* encoded) const;
    void decode(uint64_t n_tokens, const void* encoded, void* rows) const;

private:
    const kvp_codec* table_;
    std::string id_;
    std::string summary_;
    uint32_t head_size_;
    kvp_codec_info info_{};
};

}  // namespace kvplane
