// Host memory of a tier: address space up front, pages of the operating system as they are touched.
#pragma once

#include <cstdint>

#include "kvplane/base.h"

namespace kvplane {

class HostMemory {
public:
    explicit HostMemory(uint64_t bytes);  // throws Error(memory)
    ~HostMemory();
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;

    kvp_address address() const { return reinterpret_cast<kvp_address>(memory_); }

private:
    void* memory_ = nullptr;
    uint64_t bytes_;
};

// Physical memory of this machine, 0 if it cannot be told.
uint64_t physical_memory_bytes();

}  // namespace kvplane
