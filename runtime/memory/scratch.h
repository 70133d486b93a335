// Device memory that lives until the end of a step: handed out in order, taken back all at once.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"

namespace kvplane {

class Scratch {
public:
    explicit Scratch(Device& device) : device_(device) {}

    kvp_address take(uint64_t bytes);
    void reset();

private:
    Device& device_;
    std::vector<Buffer> blocks_;
    size_t block_ = 0;
    uint64_t used_ = 0;
};

}  // namespace kvplane
