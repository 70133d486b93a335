// Every test runs on each instruction set that this machine has, with 1, 3 and 8 threads; under a
// sanitizer with 4.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "support/device_harness.h"
#include "support/random_weights.h"
#include "support/sanitizer.h"

namespace kvplane::test {

class CpuDevice : public testing::TestWithParam<std::tuple<std::string, int>> {
protected:
    void SetUp() override {
        try {
            device_ =
                std::make_unique<DeviceHarness>(KVPLANE_CPU_PLUGIN, std::get<1>(GetParam()), std::get<0>(GetParam()));
        } catch (const std::runtime_error& error) {
            if (std::string(error.what()).find("this processor does not have it") == std::string::npos) throw;
            GTEST_SKIP() << error.what();
        }
    }
    const DeviceHarness& device() const { return *device_; }

private:
    std::unique_ptr<DeviceHarness> device_;
};

inline std::vector<int> thread_counts() {
    if (is_sanitized) return {4};
    return {1, 3, 8};
}

inline std::string level_name(const testing::TestParamInfo<std::tuple<std::string, int>>& info) {
    return std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param)) + "_threads";
}

#define KVPLANE_ALL_LEVELS(suite)                                                                                 \
    INSTANTIATE_TEST_SUITE_P(levels, suite,                                                                       \
                             testing::Combine(testing::Values("sse4", "avx2", "avxvnni", "avx512", "avx512bf16"), \
                                              testing::ValuesIn(thread_counts())),                                \
                             level_name)

// Half precision by the text of IEEE 754, apart from the plugin's.
inline double half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const double mantissa = bits & 1023;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// The half nearest to x, of two equally near the even one; by trying all finite ones near the magnitude.
inline uint16_t nearest_half(double x) {
    uint16_t low = 0;  // the largest half <= |x|
    uint16_t high = 0x7BFF;
    const double magnitude = std::abs(x);
    while (low < high) {
        const auto middle = static_cast<uint16_t>((low + high + 1) / 2);
        if (half_value(middle) <= magnitude) {
            low = middle;
        } else {
            high = static_cast<uint16_t>(middle - 1);
        }
    }
    if (low < 0x7BFF) {
        const double below = magnitude - half_value(low);
        const double above = half_value(static_cast<uint16_t>(low + 1)) - magnitude;
        if (above < below || (above == below && (low & 1) != 0)) ++low;
    }
    return static_cast<uint16_t>(low | (std::signbit(x) ? 0x8000 : 0));
}

}  // namespace kvplane::test
