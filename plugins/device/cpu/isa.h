// Which instruction set the kernels use: the fastest that the processor has, or the one that KVPLANE_CPU names.
#pragma once

#include "kernels/kernels.h"

namespace kvplane::cpu {

struct Isa {
    const char* name;  // value of KVPLANE_CPU
    const char* arch;  // for kvp_device_info
    const Kernels* kernels;
};

// Throws PluginError when the processor has no SSE4.1, or KVPLANE_CPU names nothing or more than the processor has.
Isa choose_isa();

}  // namespace kvplane::cpu
