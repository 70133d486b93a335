// What a plan reads, as plain lists, and the inputs of golden files.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "small_model.h"

namespace kvplane::test {

// Cached rows that a plan reads of KV head `head`, the step's own left out, ascending. A row that is named twice stands
// there twice.
inline std::vector<int> rows_read(const std::vector<kvp_segment>& segments, uint32_t head, int64_t n_past) {
    std::vector<int> rows;
    for (const kvp_segment& segment : segments) {
        if (segment.form == KVP_SEGMENT_RANGE) {
            for (int64_t row = segment.begin; row < std::min(segment.end, n_past); row++) rows.push_back(int(row));
        } else if (segment.form != KVP_SEGMENT_VIRTUAL) {
            const int size = segment.form == KVP_SEGMENT_PAGE_LIST ? int(segment.page_tokens) : 1;
            const auto* index = reinterpret_cast<const int32_t*>(segment.index) + head * segment.index_stride;
            const int32_t count = reinterpret_cast<const int32_t*>(segment.count)[head];
            for (int32_t i = 0; i < count; i++) {
                for (int row = index[i] * size; row < (index[i] + 1) * size; row++) rows.push_back(row);
            }
        }
    }
    std::sort(rows.begin(), rows.end());
    return rows;
}

inline std::vector<float> scaled(const nlohmann::json& integers, double scale) {
    std::vector<float> values;
    for (const nlohmann::json& integer : integers) values.push_back(static_cast<float>(integer.get<int>() / scale));
    return values;
}

inline std::vector<float> part(const std::vector<float>& values, int64_t begin, int64_t end, int64_t width) {
    return {values.begin() + begin * width, values.begin() + end * width};
}

// The cpu plugin; `table` is null where it is not built.
inline CpuDevice& cpu() {
    static CpuDevice device(plugin_path("cpu"));
    return device;
}

inline std::string test_name(std::string name) {
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

}  // namespace kvplane::test
