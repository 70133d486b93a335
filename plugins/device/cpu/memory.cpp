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

std::shared_ptr<uint8_t> SharedPages::allocate(uint64_t n_bytes) {
    constexpr uint64_t kRun = 16 * kHugePage;
    if (n_bytes >= kRun / 2) return cpu::allocate(n_bytes);
    const uint64_t padded = (n_bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::lock_guard lock(mutex_);
    if (padded > size_ - used_) {
        run_ = cpu::allocate(kRun);
        size_ = kRun;
        used_ = 0;
    }
    uint8_t* memory = run_.get() + used_;
    used_ += padded;
    return {run_, memory};
}

}  // namespace kvplane::cpu
