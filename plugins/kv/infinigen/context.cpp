#include "context.h"

namespace kvplane::infinigen {

bool Turn::selects() const {
    const Settings& settings = context_.settings;
    const kvp_kv_sequence& mine = sequence();
    return layer_ >= context_.first_layer && mine.phase == KVP_PHASE_DECODE && mine.n_rows == 1 &&
           layer_state().indexed && settings.sinks + settings.recent + settings.floor_count(n_past()) < n_past();
}

kvp_address Turn::scratch(uint64_t n_bytes) const {
    kvp_address address = 0;
    kvp::check(context_.core->scratch(call_, n_bytes, &address));
    return address;
}

kvp_address Turn::sidecar(Sidecars::Id id, uint64_t* capacity) const {
    if (!sidecars_.has(id)) return 0;
    kvp_address address = 0;
    uint64_t found = 0;
    kvp::check(context_.core->sidecar(call_, number_, layer_, sidecars_.number(id), &address, &found));
    if (capacity != nullptr) *capacity = found;
    return address;
}

kvp_address Turn::keys(uint64_t* capacity) const {
    const kvp_address address = sidecar(Sidecars::keys, capacity);
    *capacity *= sidecars_.page_rows();
    return address;
}

kvp_rows Turn::rows() const {
    auto rows = kvp::make<kvp_rows>();
    kvp::check(context_.core->rows(call_, number_, layer_, &rows));
    return rows;
}

}  // namespace kvplane::infinigen
