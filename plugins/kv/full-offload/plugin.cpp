#include <array>

#include "common/strategy.h"
#include "instance.h"

namespace {

constexpr std::array<const kvp_option*, 0> options{};

}  // namespace

KVPLANE_KV_PLUGIN("full-offload", kvplane::full_offload::Instance, options)
