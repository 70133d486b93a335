// What [kv.quest] may say.
#pragma once

#include <array>
#include <string>

#include "common/budget.h"
#include "kvplane/kv.h"

namespace kvplane::quest {

// Over the query heads that share a KV head, the score of a page is
enum class Group {
    best,  // that of the head in which it comes closest to the head's best page
    max,   // the greatest
    mean,
};

struct Settings {
    kv::Budget budget;
    uint32_t page_tokens;   // of Quest's pages, a part of the memory's
    uint32_t dense_layers;  // the first, which read everything
    uint32_t min_pages;
    Group group;

    // Throws kvp::Failure(KVP_ERROR_INVALID) on values that do not go with the model's pages.
    static Settings read(const kvp::Host& host, const kvp_kv_model& model);

    // Pages of those that hold n_past rows to read, the newest one counted.
    int64_t pages_read(int64_t n_past) const;
    std::string summary() const;
};

extern const std::array<const kvp_option*, 6>& options;

}  // namespace kvplane::quest
