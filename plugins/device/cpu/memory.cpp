#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>

namespace kvplane::cpu {

Memory allocate(uint64_t n_bytes, uint64_t alignment) {
    const bool large = n_bytes >= kHugePage;
    if (large && alignment < kHugePage) alignment = kHugePage;
    if (alignment < kAlignment) alignment = kAlignment;
    if (n_bytes > std::numeric_limits<uint64_t>::max() / 2 || alignment > (uint64_t{1} << 40)) throw std::bad_alloc();
    const uint64_t padded = (std::max<uint64_t>(n_bytes, 1) + alignment - 1) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, padded);
    if (memory == nullptr) throw std::bad_alloc();
    if (large) madvise(memory, padded, MADV_HUGEPAGE);  // a wish: without it the pages are small ones
    return Memory(static_cast<uint8_t*>(memory));
}

}  // namespace kvplane::cpu
