// How fast this machine reads memory now: the ceiling of every decode. A machine that is shared drifts, so it is
// measured between the runs, not once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvplane::tool {

class ReadLimit {
public:
    // Takes memory that no cache holds: 256 MiB a thread, less where that were more than a quarter of the machine's.
    explicit ReadLimit(uint32_t threads);
    ~ReadLimit();
    ReadLimit(const ReadLimit&) = delete;
    ReadLimit& operator=(const ReadLimit&) = delete;

    // Bytes a second of all threads together. Takes about 0.1 s.
    double measure();

private:
    uint64_t bytes_;  // of a thread
    std::vector<std::byte*> blocks_;
};

}  // namespace kvplane::tool
