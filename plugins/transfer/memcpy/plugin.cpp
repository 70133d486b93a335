// transfer/memcpy: copies between tiers that are ordinary memory. This file is the border; engine.cpp does the work.
#include <kvplane/transfer.h>

#include <memory>

#include "engine.h"
#include "fill.h"
#include "kvplane/sdk/plugin.hpp"

KVP_MANIFEST(KVP_MANIFEST_JSON("transfer", "memcpy", "1.0.0"));

namespace {

constexpr uint32_t tiers[] = {KVP_TIER_DEVICE, KVP_TIER_PINNED, KVP_TIER_HOST};
constexpr uint32_t n_tiers = 3;

constexpr auto options = kvp::options(
    kvp::option_i64("threads", "1", 0, 64, "threads that copy beside the computation; 0: submit copies"),
    kvp::option_i64("max_batches", "64", 1, 65536, "batches under way, ended ones that nobody polled included"));
constexpr auto option_pointers = kvp::pointers(options);

const kvp_host* host_table = nullptr;
kvp::Host host;

uint32_t option_u32(const char* key) {
    return static_cast<uint32_t>(host.option_i64(key));
}

template <class Struct>
void require_size(const Struct* given) {
    if (given == nullptr || given->head.struct_size < sizeof(Struct)) {
        throw kvp::Failure(KVP_ERROR_INVALID, "a struct is missing or shorter than ABI 1.0 has it");
    }
}

kvp_status pair(uint32_t index, kvp_transfer_pair* pair) {
    return host.guard([&] {
        if (index >= n_tiers * n_tiers) return KVP_NOT_FOUND;
        auto made = kvp::make<kvp_transfer_pair>();
        made.from_tier = tiers[index / n_tiers];
        made.to_tier = tiers[index % n_tiers];
        made.path = KVP_PATH_DIRECT;
        made.alignment_bytes = 1;
        made.max_batches = option_u32("max_batches");
        fill(pair, made);
        return KVP_OK;
    });
}

kvp_status open(kvp_transfer_engine** engine) {
    return host.guard(
        [&] { *engine = new kvp_transfer_engine(host_table, option_u32("threads"), option_u32("max_batches")); });
}

void close(kvp_transfer_engine* engine) {
    delete engine;
}

kvp_status add_memory(kvp_transfer_engine* engine, const kvp_transfer_region* region, kvp_transfer_memory** memory) {
    return host.guard([&] {
        require_size(region);
        *memory = engine->add_memory(*region);
    });
}

kvp_status remove_memory(kvp_transfer_engine* engine, kvp_transfer_memory* memory) {
    return host.guard([&] { return engine->remove_memory(memory); });
}

kvp_status submit(kvp_transfer_engine* engine, const kvp_transfer_batch* batch) {
    return host.guard([&] {
        require_size(batch);
        return engine->submit(*batch);
    });
}

kvp_status poll(kvp_transfer_engine* engine, kvp_transfer_record* const* records, uint32_t n_records,
                uint64_t timeout_ns, uint32_t* n_filled) {
    return host.guard([&] { return engine->poll(records, n_records, timeout_ns, n_filled); });
}

kvp_status cancel(kvp_transfer_engine* engine, uint64_t tag) {
    return host.guard([&] { return engine->cancel(tag); });
}

constexpr kvp_transfer make_table() {
    auto made = kvp::make<kvp_transfer>();
    made.pair = pair;
    made.open = open;
    made.close = close;
    made.add_memory = add_memory;
    made.remove_memory = remove_memory;
    made.submit = submit;
    made.poll = poll;
    made.cancel = cancel;
    return made;
}
constexpr kvp_transfer table = make_table();

kvp_status init(const kvp_host* given) {
    host_table = given;
    host = kvp::Host(given);
    return KVP_OK;
}

void fini() {}

const void* get_kind(kvp_str kind) {
    return kvp::view(kind) == KVP_KIND_TRANSFER ? &table : nullptr;
}

constexpr kvp_plugin_descriptor make_descriptor() {
    auto made = kvp::describe("memcpy", "1.0.0", "kvplane", option_pointers, init, fini, get_kind);
    made.flags = KVP_PLUGIN_SPAWNS_THREADS;
    return made;
}
constexpr kvp_plugin_descriptor descriptor = make_descriptor();

}  // namespace

KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host*) {
    return &descriptor;
}
