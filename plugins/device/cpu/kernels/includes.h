// First include of each file of one level. Such a file is compiled above the baseline, so nothing in it may have a name
// that the linker could share with the rest: intrinsics, Highway's static functions and anonymous namespaces only.
#pragma once

#define HWY_COMPILE_ONLY_STATIC  // the target is what the compiler's flags say; we choose at run time ourselves
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"
