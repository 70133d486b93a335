#pragma once

#include <algorithm>
#include <vector>

namespace kvplane::tool {

// Of at least one value.
inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace kvplane::tool
