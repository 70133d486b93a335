#include "instance.h"

#include <algorithm>
#include <vector>

namespace kvplane::full_offload {

Instance::Instance(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model)
    : host_(host),
      core_(core),
      model_(model),
      most_pages_(model.context / model.page_tokens),
      needs_(kvp::make<kvp_kv_needs>()) {
    needs_.lower_tier = 1;
    needs_.dense_layers = 0;
    needs_.summary =
        kvp::str(model.reads_tiers_in_place ? "full-offload: every row, read where it is in the host tier"
                                            : "full-offload: every row, from the host tier, one layer ahead");
    if (model.reads_tiers_in_place || most_pages_ == 0) return;
    std::vector<int32_t> index, counts;
    for (uint32_t head = 0; head < model.n_kv_heads; head++) {
        for (int64_t page = 0; page < most_pages_; page++) index.push_back(static_cast<int32_t>(page));
    }
    for (int64_t n = 0; n <= most_pages_; n++) counts.insert(counts.end(), model.n_kv_heads, static_cast<int32_t>(n));
    kvp::check(core.constant(core.object, index.data(), index.size() * sizeof(int32_t), &index_));
    kvp::check(core.constant(core.object, counts.data(), counts.size() * sizeof(int32_t), &counts_));
}

kvp_segment Instance::pages(int64_t n_pages) const {
    auto segment = kvp::make<kvp_segment>();
    segment.form = KVP_SEGMENT_PAGE_LIST;
    segment.page_tokens = model_.page_tokens;
    segment.index = index_;
    segment.index_stride = static_cast<uint64_t>(most_pages_);
    segment.max_count = static_cast<uint32_t>(n_pages);
    segment.count = counts_ + static_cast<uint64_t>(n_pages) * model_.n_kv_heads * sizeof(int32_t);
    return segment;
}

void Instance::fetch(kvp_kv_call* call, const kvp_kv_step& step, uint32_t layer) const {
    if (model_.reads_tiers_in_place || layer >= model_.n_layers) return;
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        const kvp_kv_sequence& sequence = *step.sequences[i];
        const int64_t n_pages = sequence.n_cached / model_.page_tokens;
        if (sequence.phase != KVP_PHASE_DECODE || n_pages == 0) continue;
        const kvp_segment segment = pages(n_pages);
        uint64_t ticket = 0;
        kvp::check(core_.fetch(call, i, layer, &segment, &ticket));
    }
}

// A range would stream through the staging slots; what was fetched ahead is found by a list.
void Instance::attn_plan(kvp_kv_call* call, const kvp_kv_step& step) const {
    for (uint32_t i = 0; i < step.n_sequences; i++) {
        const kv::Turn turn(core_, host_, call, step, i, step.layer);
        const int64_t n_pages = turn.n_past() / model_.page_tokens;
        const bool lists = turn.decodes() && !model_.reads_tiers_in_place && n_pages > 0;
        if (lists) turn.add(pages(n_pages));
        turn.add_range(lists ? n_pages * model_.page_tokens : 0, turn.n_total());
    }
}

}  // namespace kvplane::full_offload
