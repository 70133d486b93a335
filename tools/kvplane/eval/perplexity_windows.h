#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvplane::tool {

// The windows of a text: starts, how much of each is a prompt, and which rows count.
struct Windows {
    std::vector<int32_t> ids;
    int64_t context, stride, prompt, n;

    std::span<const int32_t> at(int64_t window) const {
        return std::span(ids).subspan(static_cast<size_t>(window * stride), static_cast<size_t>(context));
    }
    int64_t rows() const { return context - 1 - prompt; }  // that count: each says the token after it
};

}  // namespace kvplane::tool
