#include "context.h"

namespace kvplane::infinigen {

bool Turn::selects() const {
    const Settings& settings = context_.settings;
    return layer() >= context_.first_layer && decodes() && sequence().n_rows == 1 && layer_state().indexed &&
           settings.sinks + settings.recent + settings.floor_count(n_past()) < n_past();
}

kvp_address Turn::sidecar(Sidecars::Id id, uint64_t* capacity) const {
    return sidecars_.has(id) ? kv::Turn::sidecar(sidecars_.number(id), capacity) : 0;
}

kvp_address Turn::keys(uint64_t* capacity) const {
    const kvp_address address = sidecar(Sidecars::keys, capacity);
    *capacity *= sidecars_.page_rows();
    return address;
}

}  // namespace kvplane::infinigen
