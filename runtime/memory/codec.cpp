#include "memory/codec.h"

namespace kvplane {

Codec::Codec(const kvp_codec* table, std::string id, const Explain& explain, uint32_t head_size)
    : table_(table), id_(std::move(id)), head_size_(head_size) {
    info_.head.struct_size = sizeof(info_);
    if (const kvp_status status = table_->info(head_size, &info_); status != KVP_OK) {
        throw Error(ErrorKind::config, "kv.codec = \"" + id_ + "\" cannot encode rows of head size " +
                                           std::to_string(head_size) + ": " + explain(status));
    }
    summary_.assign(info_.summary.data, info_.summary.n_bytes);
    const bool waits = info_.block_tokens > 1 || info_.recent_tokens > 0;
    if (info_.block_tokens == 0 || (waits && info_.reads_own_step == 0) || bytes(info_.block_tokens) == 0) {
        throw Error(ErrorKind::plugin, "codec " + id_ + " describes itself in a way that kvplane/codec.h rules out");
    }
}

void Codec::expect_pages_of(uint32_t tokens) const {
    if (tokens % block_tokens() == 0) return;
    throw Error(ErrorKind::config, "kv.codec = \"" + id_ + "\" encodes " + std::to_string(block_tokens()) +
                                       " tokens together, which must divide memory.page_tokens = " +
                                       std::to_string(tokens) + "; raise it, or take another codec");
}

void Codec::encode(uint64_t n_tokens, const void* rows, void* encoded) const {
    if (table_->encode(head_size_, n_tokens, static_cast<const uint16_t*>(rows), encoded) != KVP_OK) {
        throw Error(ErrorKind::plugin, "codec " + id_ + " failed to encode " + std::to_string(n_tokens) + " rows");
    }
}

void Codec::decode(uint64_t n_tokens, const void* encoded, void* rows) const {
    if (table_->decode(head_size_, n_tokens, encoded, static_cast<uint16_t*>(rows)) != KVP_OK) {
        throw Error(ErrorKind::plugin, "codec " + id_ + " failed to decode " + std::to_string(n_tokens) + " rows");
    }
}

}  // namespace kvplane
