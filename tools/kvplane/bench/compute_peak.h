// The most multiplications that this machine's threads do together now, on values that stay in registers: the other
// ceiling of a roofline, beside the read limit.
#pragma once

#include <cstdint>
#include <string>

namespace kvplane::tool {

struct ComputePeak {
    double int8 = 0;  // operations a second, two a multiplication with its addition; 0: not known on this processor
    double f32 = 0;
};

// `arch`: the instruction set that the device uses, as kvp_device_info names it. Takes about 0.2 s.
ComputePeak measure_compute_peak(const std::string& arch, uint32_t threads);

}  // namespace kvplane::tool
