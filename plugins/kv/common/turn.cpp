#include "common/turn.h"

namespace kvplane::kv {

kvp_address Turn::scratch(uint64_t n_bytes) const {
    kvp_address address = 0;
    kvp::check(core_.scratch(call_, n_bytes, &address));
    return address;
}

kvp_address Turn::sidecar(uint32_t index, uint64_t* capacity) const {
    kvp_address address = 0;
    uint64_t found = 0;
    kvp::check(core_.sidecar(call_, number_, layer_, index, &address, &found));
    if (capacity != nullptr) *capacity = found;
    return address;
}

kvp_rows Turn::rows() const {
    auto rows = kvp::make<kvp_rows>();
    kvp::check(core_.rows(call_, number_, layer_, &rows));
    return rows;
}

void Turn::copy(const kvp_copy_region* regions, uint32_t n_regions) const {
    kvp::check(core_.copy(call_, regions, n_regions));
}

void Turn::keep_rows(kvp_address index, uint64_t stride, uint32_t n_chosen, int64_t tail_begin) const {
    kvp::check(core_.keep_rows(call_, number_, layer_, index, stride, n_chosen, tail_begin));
}

void Turn::add(const kvp_segment& segment) const {
    kvp::check(core_.segment(call_, number_, &segment));
}

void Turn::add_range(int64_t begin, int64_t end) const {
    if (begin >= end) return;
    auto segment = kvp::make<kvp_segment>();
    segment.form = KVP_SEGMENT_RANGE;
    segment.flags = KVP_SEGMENT_CAUSAL;
    segment.begin = begin;
    segment.end = end;
    add(segment);
}

}  // namespace kvplane::kv
