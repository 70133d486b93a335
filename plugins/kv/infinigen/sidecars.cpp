#include "sidecars.h"

#include <algorithm>

namespace kvplane::infinigen {

namespace {

// Bytes of 16 rows side by side (ops.h).
uint64_t tile_bytes(uint32_t type, uint64_t n_columns) {
    const auto words = [n_columns](uint64_t columns) { return (n_columns + columns - 1) / columns * 64; };
    switch (type) {
        case KVP_TYPE_F32: return n_columns * 64;
        case KVP_TYPE_F16: return n_columns * 32;
        case KVP_TYPE_I8: return words(4);
        default: return words(8);  // I4
    }
}

}  // namespace

Sidecars::Sidecars(const Settings& settings, const kvp_kv_model& model, uint32_t first_layer)
    : page_rows_(std::max(model.page_tokens, tile_rows)) {
    std::fill(std::begin(number_), std::end(number_), -1);
    const uint64_t d = model.head_size;
    const uint64_t columns = settings.stored_columns(model.head_size);
    const uint64_t mean_bytes = mean_type(model) == KVP_TYPE_F32 ? 4 : 2;
    add(statistics, "statistics", KVP_SIDECAR_KV_HEAD, 5 * d * sizeof(double), first_layer);
    add(projection, "projection", KVP_SIDECAR_KV_HEAD, d * columns * sizeof(float), first_layer);
    add(index, "index", KVP_SIDECAR_KV_HEAD, columns * sizeof(int32_t), first_layer);
    add(mean, "mean", KVP_SIDECAR_KV_HEAD, columns * sizeof(float), first_layer);
    add(keys, "keys", KVP_SIDECAR_PAGE, page_rows_ / tile_rows * tile_bytes(settings.key_type, columns), first_layer);
    if (settings.key_type == KVP_TYPE_I8) {
        add(scales, "scales", KVP_SIDECAR_PAGE, page_rows_ * sizeof(float), first_layer);
    }
    if (settings.key_type == KVP_TYPE_I4) {
        add(scales, "scales", KVP_SIDECAR_KV_HEAD, columns * sizeof(float), first_layer);
    }
    if (settings.centroids) add(means, "means", KVP_SIDECAR_PAGE, 2 * d * mean_bytes, first_layer);
    if (settings.chooses_pages()) add(spreads, "spreads", KVP_SIDECAR_PAGE, d * mean_bytes, first_layer);
    for (const kvp_sidecar& sidecar : sidecars_) pointers_.push_back(&sidecar);
}

void Sidecars::add(Id id, std::string_view name, uint32_t scope, uint64_t n_bytes, uint32_t first_layer) {
    auto sidecar = kvp::make<kvp_sidecar>();
    sidecar.name = kvp::str(name);
    sidecar.scope = scope;
    sidecar.first_layer = first_layer;
    sidecar.n_bytes = n_bytes;
    number_[id] = static_cast<int32_t>(sidecars_.size());
    sidecars_.push_back(sidecar);
}

}  // namespace kvplane::infinigen
