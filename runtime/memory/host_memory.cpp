#include "memory/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"

namespace kvplane {

HostMemory::HostMemory(uint64_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) {
        throw Error(ErrorKind::memory, "the host tier cannot have " + std::to_string(bytes) +
                                           " bytes: " + std::strerror(errno) + "; lower tiers.host.kv_bytes");
    }
}

HostMemory::~HostMemory() {
    if (bytes_ != 0) munmap(memory_, bytes_);
}

uint64_t physical_memory_bytes() {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : 0;
}

}  // namespace kvplane
