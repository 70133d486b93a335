#pragma once

#include <cstdint>
#include <span>

namespace kvplane::tool {

// log p(token) by the softmax of these logits. In double where it counts: thousands of them are summed.
double log_likelihood(std::span<const float> logits, int32_t token);

}  // namespace kvplane::tool
